#include "sim/config/change.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "sim/config/scalars.hpp"
#include "sim/config/tree.hpp"

namespace sim {
namespace {

std::optional<double> factor_of(std::string_view value) {
  if (!value.starts_with('x')) return std::nullopt;
  const ParsedNumber<double> parsed = parse_real(value.substr(1));
  const double* factor = std::get_if<double>(&parsed);
  return factor != nullptr && *factor > 0 ? std::optional{*factor} : std::nullopt;
}

}  // namespace

std::string scaled_text(std::string_view text, double factor) {
  const std::size_t end = std::min(text.find_first_not_of("0123456789.eE+-"), text.size());
  const ParsedNumber<double> number = parse_real(text.substr(0, end));
  const double* value = std::get_if<double>(&number);
  if (value == nullptr) return {};
  return fmt::format("{}{}", *value * factor, text.substr(end));
}

void Tree::insert(NodeIndex object, std::string_view key, NodeIndex child) {
  const TreeNode old = nodes_[object];
  TreeNode& node = nodes_[object];
  node.first_entry = static_cast<std::uint32_t>(entries_.size());
  node.entry_count = old.entry_count + 1;
  for (std::uint32_t slot = 0; slot < old.entry_count; ++slot) {
    const TreeEntry copied = entry(old, slot);
    entries_.push_back(copied);
  }
  TreeEntry added;
  added.key = store(key);
  added.key_place = nodes_[child].place;
  added.node = child;
  entries_.push_back(added);
  sort_keys(node);
  nodes_[child].parent = object;
  nodes_[child].parent_slot = old.entry_count;
}

// written() is what the file says where changes have replaced it: two keys that share a value by an
// alias are multiplied once each, not twice.
NodeIndex Tree::written(NodeIndex node) const {
  const auto found = replaces_.find(node);
  return found == replaces_.end() ? node : found->second;
}

void Tree::change(const Change& change) {
  const TextPlace place{-static_cast<std::int32_t>(changes_.size()) - 1, 0};
  changes_.push_back(change);
  NodeIndex object = root_;
  std::string_view rest = change.key;
  for (std::size_t dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
    const TreeEntry* section = find(object, rest.substr(0, dot));
    if (section == nullptr || nodes_[section->node].kind != ValueKind::object)
      fail(place, fmt::format("there is no section '{}'", rest.substr(0, dot)));
    object = section->node;
    rest.remove_prefix(dot + 1);
  }
  if (nodes_[object].kind != ValueKind::object) fail(place, "the file is not an object");
  const TreeEntry* own = find(object, rest);
  TreeNode node;
  node.kind = ValueKind::plain;
  node.place = place;
  if (const std::optional<double> factor = factor_of(change.value)) {
    if (own == nullptr) fail(place, fmt::format("the file has no '{}' to multiply", rest));
    const std::string scaled = scaled_text(text(nodes_[written(own->node)].text), *factor);
    if (scaled.empty()) fail(place, fmt::format("'{}' is no number to multiply", rest));
    node.text = store(scaled);
  } else {
    node.text = store(change.value);
    // An empty section, for changes within it.
    if (change.value == "{}") node.kind = ValueKind::object;
  }
  const auto child = static_cast<NodeIndex>(nodes_.size());
  nodes_.push_back(node);
  if (own == nullptr) {
    insert(object, rest, child);
    return;
  }
  TreeEntry& replaced = entries_[static_cast<std::size_t>(own - entries_.data())];
  nodes_[child].parent = object;
  nodes_[child].parent_slot =
      static_cast<std::uint32_t>(own - &entries_[nodes_[object].first_entry]);
  replaces_[child] = written(replaced.node);
  replaced.node = child;
}

void Tree::add_section(std::string_view key) {
  if (nodes_[root_].kind != ValueKind::object) return;
  if (const TreeEntry* known = find(root_, key)) {
    TreeNode& there = nodes_[known->node];
    if (there.kind != ValueKind::null) return;
    there.kind = ValueKind::object;
    there.first_entry = static_cast<std::uint32_t>(entries_.size());
    there.entry_count = 0;
    return;
  }
  TreeNode node;
  node.kind = ValueKind::object;
  node.place = nodes_[root_].place;
  node.first_entry = static_cast<std::uint32_t>(entries_.size());
  const auto child = static_cast<NodeIndex>(nodes_.size());
  nodes_.push_back(node);
  insert(root_, key, child);
}

void set_override(std::vector<std::string>& overrides, const std::string& key,
                  const std::string& value) {
  std::erase_if(overrides, [&](const std::string& text) { return text.starts_with(key + '='); });
  overrides.push_back(fmt::format("{}={}", key, value));
}

}  // namespace sim
