// Arguments as YAML: "MODEL_ARGS:" or "ARGS:" with "--num-layers: 32" or "num_layers: 32" below it,
// beside sections that are not for the training program (ENV_VARS). The tree is that of flags.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/config/parsers.hpp"
#include "sim/scripts/script_parsers.hpp"

namespace sim {
namespace {

constexpr std::array<std::string_view, 2> sections{"MODEL_ARGS", "ARGS"};

std::string flag_of_key(std::string_view key) {
  std::string name = key.starts_with("--") ? std::string{key} : fmt::format("--{}", key);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

// A value and all below it.
void copy(const Tree& from, NodeIndex index, Tree& to) {
  const TreeNode& node = from.node(index);
  if (node.kind == ValueKind::object)
    from.fail(node.place, "expected a value or a list of values for a flag");
  if (node.kind != ValueKind::list) {
    to.add_scalar(node.place, node.kind, from.text(node.text));
    return;
  }
  to.open(node.place, ValueKind::list);
  for (std::uint32_t slot = 0; slot < node.entry_count; ++slot)
    copy(from, from.entry(node, slot).node, to);
  to.close();
}

}  // namespace

bool is_arguments_yaml(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view line = text.substr(at, text.find('\n', at) - at);
    for (const std::string_view section : sections)
      if (line.starts_with(section) && line.substr(section.size()).starts_with(':')) return true;
    at = std::min(text.find('\n', at), text.size() - 1) + 1;
  }
  return false;
}

void parse_arguments_yaml_into(Tree& tree) {
  Tree yaml{tree.source(), tree.name()};
  parse_yaml_into(yaml);
  const NodeIndex root = yaml.root();
  const TreeEntry* found = nullptr;
  for (const std::string_view section : sections)
    if (found == nullptr) found = yaml.find(root, section);
  yaml.throw_problems();  // a key that is given twice
  if (found == nullptr || yaml.node(found->node).kind != ValueKind::object)
    yaml.fail(found == nullptr ? TextPlace{1, 0} : found->key_place,
              "expected flags below it, as '--num-layers: 32' or 'num_layers: 32'");
  const TreeNode& flags = yaml.node(found->node);
  tree.open(flags.place, ValueKind::object);
  for (std::uint32_t slot = 0; slot < flags.entry_count; ++slot) {
    const TreeEntry& entry = yaml.entry(flags, slot);
    tree.add_key(entry.key_place, flag_of_key(yaml.text(entry.key)));
    copy(yaml, entry.node, tree);
  }
  tree.close();
  tree.throw_problems();
}

}  // namespace sim
