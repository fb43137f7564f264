#include "sim/topology/survey/survey.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "sim/base/input_error.hpp"
#include "sim/config/json_scan.hpp"

namespace sim {
namespace {

constexpr std::size_t largest_dump = std::size_t{64} << 20;

std::string counted(std::int64_t number, std::string_view what) {
  return fmt::format("{} {}{}{}", number, what, what.ends_with("ch") && number != 1 ? "e" : "",
                     number == 1 ? "" : "s");
}

// "16, 16, 16, 12", or "16 each".
std::string values_text(const std::vector<std::int64_t>& values) {
  const bool equal = std::ranges::all_of(values, [&](auto v) { return v == values.front(); });
  if (equal && values.size() > 1) return fmt::format("{} each", values.front());
  constexpr std::size_t most = 24;
  const std::size_t shown = std::min(values.size(), most);
  return fmt::format("{}{}",
                     fmt::join(values.begin(), values.begin() + static_cast<long>(shown), ", "),
                     shown < values.size() ? ", ..." : "");
}

class Description {
 public:
  explicit Description(const FabricSurvey& survey) : s_{survey} {
    for (const SurveyedSwitch& one : s_.switches)
      levels_ = std::max(levels_, one.level + 1);
  }

  std::string text() {
    text_ = s_.format;
    if (!s_.name.empty()) text_ += fmt::format(" \"{}\"", s_.name);
    text_ += fmt::format(": {}{}\n", counted(s_.nodes, "node"),
                         s_.unnamed_ports > 0 ? " with a name" : "");
    if (s_.blocks)
      blocks();
    else
      switches();
    for (const std::string& note : s_.notes)
      text_ += fmt::format("  note: {}\n", note);
    text_ += s_.blocks ? block_lines() : fabric_lines();
    return std::move(text_);
  }

 private:
  using Count = std::int64_t;
  std::vector<Count> of_level(int level, Count (Description::*count)(const SurveyedSwitch&) const) {
    std::vector<Count> values;
    for (const SurveyedSwitch& one : s_.switches)
      if (one.level == level) values.push_back((this->*count)(one));
    return values;
  }
  Count nodes(const SurveyedSwitch& one) const { return one.nodes; }
  Count ports(const SurveyedSwitch& one) const { return one.host_ports; }
  Count joined(const SurveyedSwitch& one, int step) const {
    Count sum = 0;
    for (const auto& [other, links] : one.links)
      if (s_.switches[other].level == one.level + step) sum += links;
    return sum;
  }
  Count up(const SurveyedSwitch& one) const { return joined(one, 1); }
  Count down(const SurveyedSwitch& one) const { return joined(one, -1); }

  void line(std::string_view what, const std::string& value) {
    text_ += fmt::format("  {:<22}{}\n", what, value);
  }

  void blocks() {
    std::vector<Count> sizes = of_level(0, &Description::nodes);
    line("blocks", fmt::format("{}, nodes: {}", sizes.size(), values_text(sizes)));
    if (!s_.block_sizes.empty())
      line("sizes to plan with", fmt::format("{}", fmt::join(s_.block_sizes, ", ")));
  }

  void switches() {
    for (int level = 0; level < levels_; ++level) {
      const char* name = level == 0   ? "leaf switches"
                         : level == 1 ? "spine switches"
                                      : "core switches";
      const auto values = of_level(level, level > 0         ? &Description::down
                                          : s_.counts_links ? &Description::ports
                                                            : &Description::nodes);
      const char* what = level > 0 ? (s_.counts_links ? "links down" : "switches below")
                                   : (s_.counts_links ? "host ports" : "nodes");
      line(name, fmt::format("{}, {}: {}", values.size(), what, values_text(values)));
    }
    if (!s_.counts_links) return;
    Count ports = 0;
    std::set<double> rates;
    for (const SurveyedSwitch& one : s_.switches) {
      ports += one.host_ports;
      if (one.host_gbps > 0) rates.insert(one.host_gbps);
    }
    line("host ports",
         fmt::format("{}{}{}", ports,
                     rates.empty() ? "" : fmt::format(" at {:g} Gb/s", fmt::join(rates, ", ")),
                     s_.unnamed_ports > 0
                         ? fmt::format(", {} of them without a host's name", s_.unnamed_ports)
                         : ""));
    if (s_.aggregation_ports > 0)
      line("not counted", counted(s_.aggregation_ports, "port") +
                              " of aggregation nodes (SHARP), which are no hosts");
    for (int level = 0; level + 1 < levels_; ++level)
      line(level == 0 ? "uplinks of a leaf" : "uplinks of a spine",
           values_text(of_level(level, &Description::up)));
    for (int level = 0; level + 1 < levels_; ++level)
      if (const auto ratio = oversubscription(level))
        line(level == 0 ? "oversubscription" : "of spines", fmt::format("{:g} to 1", *ratio));
  }

  // Capacity down over capacity up, where all switches of the level have the same.
  std::optional<double> oversubscription(int level) const {
    std::optional<double> common;
    for (const SurveyedSwitch& one : s_.switches) {
      if (one.level != level) continue;
      const double rate = one.link_gbps > 0 ? one.link_gbps : 1;
      const double host = one.host_gbps > 0 && one.link_gbps > 0 ? one.host_gbps : rate;
      const double above = static_cast<double>(up(one)) * rate;
      const double below = level == 0 ? static_cast<double>(one.host_ports) * host
                                      : static_cast<double>(down(one)) * rate;
      if (above <= 0 || below <= 0) return std::nullopt;
      const double ratio = std::round(below / above * 1000) / 1000;
      if (common && *common != ratio) return std::nullopt;
      common = ratio;
    }
    return common;
  }

  bool equal(const std::vector<Count>& values) const {
    return std::ranges::all_of(values, [&](Count v) { return v == values.front(); });
  }

  // Why no fabric of a cluster file means the same; empty: one does.
  std::string differs() {
    for (const SurveyedSwitch& one : s_.switches)
      for (const auto& [other, links] : one.links)
        if (s_.switches[other].level == one.level)
          return fmt::format("{} and {} are of one level and joined: no Clos fabric", one.name,
                             s_.switches[other].name);
    if (levels_ > 3) return "it has more than three levels of switches";
    const auto leaves = of_level(0, s_.counts_links ? &Description::ports : &Description::nodes);
    if (!equal(leaves)) return "its leaves differ";
    if (s_.counts_links)
      for (int level = 0; level + 1 < levels_; ++level)
        if (!oversubscription(level)) return "its switches of one level differ in their links";
    if (s_.counts_links && s_.nodes > 0 && s_.one_leaf_per_node == s_.one_leaf_per_port &&
        leaves.size() > 1)
      return "it does not tell which ports of a node are at one leaf";
    return {};
  }

  std::string fabric_lines() {
    std::string text;
    if (!s_.counts_links)
      text +=
          "  not in the file: links between switches, their rates, NICs of a node (the output of "
          "ibnetdiscover has them)\n";
    const std::string why = differs();
    const auto leaves = of_level(0, &Description::nodes);
    const auto ports = of_level(0, &Description::ports);
    if (!why.empty() || leaves.empty())
      return text + fmt::format(
                        "  no fabric of a cluster file is exactly this: {}; the nearest is "
                        "written in topologies/FORMAT.md, fabric\n",
                        leaves.empty() ? "no switch has hosts" : why);
    const bool rails = s_.counts_links && s_.one_leaf_per_port;
    const Count per_leaf = rails ? ports.front() : leaves.front();
    std::string keys =
        fmt::format("kind: {}, levels: {}, nodes_per_leaf: {}",
                    rails ? "rail_optimised" : "fat_tree", std::max(2, levels_), per_leaf);
    if (levels_ == 3 && equal(of_level(1, &Description::down)) && !s_.counts_links)
      keys += fmt::format(", leaves_per_pod: {}", of_level(1, &Description::down).front());
    if (const auto ratio = oversubscription(0); ratio && s_.counts_links)
      keys += fmt::format(", oversubscription: {:g}", *ratio);
    if (const auto ratio = oversubscription(1); ratio && s_.counts_links && levels_ == 3)
      keys += fmt::format(", pod_oversubscription: {:g}", *ratio);
    text += fmt::format(
        "  in a cluster file{}:\n    fabric: {{{}}}\n",
        s_.counts_links ? "" : " (fat_tree: all NICs of a node at one leaf; or rail_optimised)",
        keys);
    return text;
  }

  std::string block_lines() {
    const auto sizes = of_level(0, &Description::nodes);
    if (sizes.empty()) return "  it has no blocks\n";
    const Count largest = *std::ranges::max_element(sizes);
    return fmt::format(
        "  a block of {} hosts is a node of a cluster file where they share one NVLink domain, as "
        "gb200-nvl72 has one of 18 trays: `cluster: {{path: gb200-nvl72, nodes: {}}}`\n",
        largest, sizes.size());
  }

  const FabricSurvey& s_;
  int levels_ = 0;
  std::string text_;
};

bool has(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}
bool is_ibnetdiscover(std::string_view text) {
  return has(text, "switchguid=");
}
bool is_slurm_conf(std::string_view text) {
  return has(text, "SwitchName=") || has(text, "BlockName=");
}
bool is_slurm_yaml(std::string_view text) {
  return has(text, "topology:") &&
         (has(text, "switches:") || has(text, "blocks:") || has(text, "flat:"));
}

}  // namespace

bool is_fabric_file(std::string_view text) {
  return is_ibnetdiscover(text) || is_slurm_conf(text) || is_slurm_yaml(text);
}

std::vector<FabricSurvey> survey_fabric(std::string_view text, const std::string& name) {
  if (is_ibnetdiscover(text)) return survey_ibnetdiscover(text, name);
  if (is_slurm_conf(text)) return survey_slurm_conf(text, name);
  if (is_slurm_yaml(text)) return survey_slurm_yaml(text, name);
  throw InputError{{name, 0, 0},
                   "is no fabric: expected the output of ibnetdiscover, Slurm's topology.conf or "
                   "topology.yaml"};
}

std::vector<FabricSurvey> survey_fabric_file(const std::string& path) {
  return survey_fabric(load_text(path, largest_dump), path);
}

std::string describe(const FabricSurvey& survey) {
  return Description{survey}.text();
}

void set_levels(FabricSurvey& survey) {
  std::vector<std::size_t> front;
  std::vector<bool> known(survey.switches.size());
  for (std::size_t i = 0; i < survey.switches.size(); ++i)
    if (survey.switches[i].host_ports > 0 || survey.switches[i].nodes > 0) {
      known[i] = true;
      front.push_back(i);
    }
  for (int level = 1; !front.empty(); ++level) {
    std::vector<std::size_t> next;
    for (const std::size_t from : front)
      for (const auto& [to, links] : survey.switches[from].links)
        if (!known[to]) {
          known[to] = true;
          survey.switches[to].level = level;
          next.push_back(to);
        }
    front = std::move(next);
  }
}

}  // namespace sim
