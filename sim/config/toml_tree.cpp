// TOML 1.0 through toml++, of which nothing else is used than its tree.
#include <fmt/format.h>
#include <toml++/toml.h>

#include <cmath>
#include <string_view>

#include "sim/config/parsers.hpp"

namespace sim {
namespace {

TextPlace to_place(const toml::source_region& region) {
  return {static_cast<std::int32_t>(region.begin.line),
          region.begin.column > 0 ? static_cast<std::int32_t>(region.begin.column) - 1 : 0};
}

class TomlTree {
 public:
  explicit TomlTree(Tree& tree) : tree_{tree} {}

  void add(const toml::node& node) {
    const TextPlace place = to_place(node.source());
    if (const toml::table* table = node.as_table()) {
      tree_.open(place, ValueKind::object);
      for (const auto& [key, value] : *table) {
        tree_.add_key(to_place(key.source()), key.str());
        add(value);
      }
      tree_.close();
    } else if (const toml::array* array = node.as_array()) {
      tree_.open(place, ValueKind::list);
      for (const toml::node& item : *array)
        add(item);
      tree_.close();
    } else if (const auto* text = node.as_string()) {
      tree_.add_scalar(place, ValueKind::quoted, text->get());
    } else {
      add_plain(place, node);
    }
  }

 private:
  void add_plain(TextPlace place, const toml::node& node) {
    std::string text;
    if (const auto* integer = node.as_integer())
      text = fmt::format("{}", integer->get());
    else if (const auto* real = node.as_floating_point())
      text = fmt::format("{}", real->get());
    else if (const auto* boolean = node.as_boolean())
      text = boolean->get() ? "true" : "false";
    else
      tree_.fail(place, "dates and times are not supported");
    const NodeIndex index = tree_.add_scalar(place, ValueKind::plain, text);
    tree_.node(index).json = true;  // numbers are exact already: 1e5 is whole
  }

  Tree& tree_;
};

// toml++ descends into each bracket and dotted key by recursion.
void refuse_deep_nesting(const Tree& tree) {
  constexpr int most_open = 128;
  int open = 0;
  TextPlace place{1, 0};
  for (const char c : tree.source()) {
    if (c == '[' || c == '{') ++open;
    if ((c == ']' || c == '}') && open > 0) --open;
    if (open > most_open)
      tree.fail(place, fmt::format("values are nested deeper than {} levels", Tree::max_depth));
    ++place.byte;
    if (c == '\n') place = {place.line + 1, 0};
  }
}

}  // namespace

void parse_toml_into(Tree& tree) {
  refuse_deep_nesting(tree);
  try {
    const toml::table root = toml::parse(tree.source());
    TomlTree{tree}.add(root);
  } catch (const toml::parse_error& error) {
    tree.fail(to_place(error.source()), fmt::format("not valid TOML: {}", error.description()));
  }
}

}  // namespace sim
