#include "sim/topology/import/xml_vocabulary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

namespace sim {
namespace {

struct Element {
  std::string_view name;
  std::string_view children;    // blank-separated
  std::string_view attributes;  // read, or without effect on rates and routes
};
constexpr std::array<Element, 10> elements{{
    {"system", " cpu ", " version name "},
    {"cpu", " pci nic ", " host_hash numaid affinity arch vendor familyid modelid keep "},
    {"pci", " pci gpu nic pcilink ",
     " busid class vendor device subsystem_vendor subsystem_device link_speed link_width keep "},
    {"gpu", " nvlink c2c xgmi ", " dev sm rank gdr gcn arch keep "},
    {"nic", " net ", " keep "},
    {"net", "", " name dev speed port latency guid maxconn gdr coll keep net gin rma rail plane "},
    {"nvlink", "", " target count tclass "},
    {"xgmi", "", " target count tclass "},
    {"c2c", "", " bw count "},
    {"pcilink", "", " target "},
}};

const Element* element_of(std::string_view name) {
  const auto found = std::find_if(elements.begin(), elements.end(),
                                  [&](const Element& element) { return element.name == name; });
  return found == elements.end() ? nullptr : &*found;
}

bool listed(std::string_view list, std::string_view name) {
  return !name.empty() && list.find(fmt::format(" {} ", name)) != std::string_view::npos;
}

struct Unread {
  int count = 0;
  int line = 0;
};

class Walk {
 public:
  explicit Walk(const TextLines& lines) : lines_{lines} {}

  void element(const pugi::xml_node& node) {
    const Element* const known = element_of(node.name());
    if (known == nullptr) return;
    for (const pugi::xml_attribute attribute : node.attributes())
      if (!listed(known->attributes, attribute.name()))
        add(fmt::format("attribute {} of <{}>", std::string_view{attribute.name()}.substr(0, 40),
                        node.name()),
            node);
    for (const pugi::xml_node child : node.children()) {
      if (child.type() != pugi::node_element) continue;
      if (listed(known->children, child.name()))
        element(child);
      else
        add(fmt::format("<{}> in <{}>", std::string_view{child.name()}.substr(0, 40), node.name()),
            child);
    }
  }

  std::vector<std::string> sentences() const {
    std::vector<std::string> result;
    for (const auto& [what, unread] : unread_)
      if (result.size() < 20)
        result.push_back(
            fmt::format("{} is not understood and left out (line {}{})", what, unread.line,
                        unread.count > 1 ? fmt::format(", {} times", unread.count) : ""));
    return result;
  }

 private:
  void add(const std::string& what, const pugi::xml_node& at) {
    Unread& unread = unread_[what];
    if (++unread.count == 1)
      unread.line =
          lines_.at(static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, at.offset_debug()))).line;
  }

  const TextLines& lines_;
  std::map<std::string, Unread> unread_;
};

}  // namespace

std::vector<std::string> unread_xml(const pugi::xml_node& system, const TextLines& lines) {
  Walk walk{lines};
  walk.element(system);
  return walk.sentences();
}

}  // namespace sim
