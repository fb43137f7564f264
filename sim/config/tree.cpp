#include "sim/config/tree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/config/text_check.hpp"

namespace sim {

Tree::Tree(std::string_view text, std::string name) : name_{std::move(name)} {
  // Editors on Windows put a byte order mark in front; both parsers see the text behind it.
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  if (text.size() > max_bytes)
    fail({}, fmt::format("the file is larger than {} MiB", max_bytes >> 20));
  source_ = text;
  line_starts_.push_back(0);
  for (std::size_t at = source_.find('\n'); at != std::string::npos;
       at = source_.find('\n', at + 1))
    line_starts_.push_back(static_cast<std::uint32_t>(at + 1));
  if (const std::optional<BadByte> bad = find_bad_byte(source_)) {
    const auto after = std::ranges::upper_bound(line_starts_, bad->offset);
    const auto line = static_cast<std::int32_t>(after - line_starts_.begin());
    const auto begin = line_starts_[static_cast<std::size_t>(line) - 1];
    // The line itself is not shown: printing such bytes could upset the terminal.
    throw InputError(SourcePosition{name_, line, static_cast<int>(bad->offset - begin) + 1},
                     bad->problem);
  }
  if (source_.find_first_not_of(" \t\r\n") == std::string::npos) fail({}, "the file is empty");
}

TextRange Tree::store(std::string_view text) {
  const TextRange range{static_cast<std::uint32_t>(pool_.size()),
                        static_cast<std::uint32_t>(text.size())};
  pool_ += text;
  return range;
}

NodeIndex Tree::add_node(TextPlace place, ValueKind kind) {
  if (nodes_.size() >= max_nodes) fail(place, fmt::format("more than {} values", max_nodes));
  const auto index = static_cast<NodeIndex>(nodes_.size());
  TreeNode node;
  node.kind = kind;
  node.place = place;
  if (open_.empty()) {
    SIM_CHECK(root_ == no_node);
    root_ = index;
  } else {
    OpenNode& parent = open_.back();
    if (nodes_[parent.node].kind == ValueKind::list) {
      parent.entries.emplace_back();
      parent.entries.back().key_place = place;
    }
    SIM_CHECK(!parent.entries.empty() && parent.entries.back().node == no_node);
    parent.entries.back().node = index;
    node.parent = parent.node;
    node.parent_slot = static_cast<std::uint32_t>(parent.entries.size() - 1);
  }
  nodes_.push_back(node);
  return index;
}

NodeIndex Tree::add_scalar(TextPlace place, ValueKind kind, std::string_view text) {
  const NodeIndex index = add_node(place, kind);
  nodes_[index].text = store(text);
  return index;
}

NodeIndex Tree::open(TextPlace place, ValueKind kind) {
  if (depth() >= max_depth)
    fail(place, fmt::format("values are nested deeper than {} levels", max_depth));
  const NodeIndex index = add_node(place, kind);
  open_.push_back({index, {}});
  return index;
}

void Tree::add_key(TextPlace place, std::string_view key) {
  SIM_CHECK(wants_key());
  if (nodes_.size() >= max_nodes) fail(place, fmt::format("more than {} values", max_nodes));
  TreeEntry entry;
  entry.key = store(key);
  entry.key_place = place;
  open_.back().entries.push_back(entry);
}

void Tree::add_alias(TextPlace place, NodeIndex target) {
  if (open_.empty()) fail(place, "the file is nothing but an alias");
  OpenNode& parent = open_.back();
  if (nodes_[parent.node].kind == ValueKind::list) {
    parent.entries.emplace_back();
    parent.entries.back().key_place = place;
  }
  parent.entries.back().node = target;
}

bool Tree::is_open(NodeIndex node) const {
  return std::ranges::any_of(open_, [&](const OpenNode& open) { return open.node == node; });
}

bool Tree::wants_key() const {
  if (open_.empty() || nodes_[open_.back().node].kind != ValueKind::object) return false;
  return open_.back().entries.empty() || open_.back().entries.back().node != no_node;
}

void Tree::close() {
  const OpenNode closed = std::move(open_.back());
  open_.pop_back();
  TreeNode& node = nodes_[closed.node];
  node.first_entry = static_cast<std::uint32_t>(entries_.size());
  node.entry_count = static_cast<std::uint32_t>(closed.entries.size());
  entries_.insert(entries_.end(), closed.entries.begin(), closed.entries.end());
  by_key_.resize(entries_.size());
  if (node.kind == ValueKind::object) refuse_duplicates(closed);
}

void Tree::sort_keys(const TreeNode& object) {
  by_key_.resize(entries_.size());
  const auto begin = by_key_.begin() + object.first_entry;
  std::iota(begin, by_key_.end(), 0U);
  const auto key_of = [&](std::uint32_t slot) { return text(entry(object, slot).key); };
  std::sort(begin, by_key_.end(), [&](std::uint32_t a, std::uint32_t b) {
    const int order = key_of(a).compare(key_of(b));
    return order != 0 ? order < 0 : a < b;
  });
}

void Tree::refuse_duplicates(const OpenNode& object) {
  const TreeNode& node = nodes_[object.node];
  sort_keys(node);
  const auto begin = by_key_.begin() + node.first_entry;
  const auto key_of = [&](std::uint32_t slot) { return text(entry(node, slot).key); };
  for (auto at = begin; at != by_key_.end(); ++at) {
    if (at == begin || key_of(*at) != key_of(*(at - 1))) continue;
    const TreeEntry& first = entry(node, *(at - 1));
    report(entry(node, *at).key_place, fmt::format("duplicate key '{}'; the first is on line {}",
                                                   key_of(*at), first.key_place.line));
  }
}

const TreeEntry* Tree::find(NodeIndex object, std::string_view key) const {
  const TreeNode& node = nodes_[object];
  if (node.kind != ValueKind::object) return nullptr;
  const auto begin = by_key_.begin() + node.first_entry;
  const auto end = begin + node.entry_count;
  const auto at = std::lower_bound(begin, end, key, [&](std::uint32_t slot, std::string_view k) {
    return text(entry(node, slot).key) < k;
  });
  return at != end && text(entry(node, *at).key) == key ? &entry(node, *at) : nullptr;
}

const TreeEntry* Tree::ask(NodeIndex object, std::string_view key) {
  TreeNode& node = nodes_[object];
  if (node.kind != ValueKind::object) return nullptr;
  node.opened = true;
  if (const TreeEntry* found = find(object, key)) {
    TreeEntry& entry = entries_[static_cast<std::size_t>(found - entries_.data())];
    if (!std::exchange(entry.known, true)) asked_[object].emplace_back(key);
    return &entry;
  }
  std::vector<std::string>& asked = asked_[object];
  if (std::ranges::find(asked, key) == asked.end()) asked.emplace_back(key);
  return nullptr;
}

NodeIndex Tree::add_absent(TextPlace place, NodeIndex parent) {
  TreeNode node;
  node.kind = ValueKind::absent;
  node.place = place;
  node.parent = parent;
  nodes_.push_back(node);
  return static_cast<NodeIndex>(nodes_.size() - 1);
}

std::string Tree::display_name(NodeIndex index) const {
  std::string suffix;
  while (true) {
    const TreeNode& child = nodes_[index];
    SIM_CHECK(child.kind != ValueKind::absent);
    if (child.parent == no_node) return suffix.empty() ? "the file" : "item " + suffix;
    const TreeNode& parent = nodes_[child.parent];
    if (parent.kind == ValueKind::object)
      return std::string{text(entry(parent, child.parent_slot).key)} + suffix;
    suffix.insert(0, fmt::format("[{}]", child.parent_slot));
    index = child.parent;
  }
}

// "layout.overlap", empty for the root; none for what lies in a list or is not there.
std::optional<std::string> Tree::path_of(NodeIndex index) const {
  std::string path;
  while (nodes_[index].parent != no_node) {
    const TreeNode& child = nodes_[index];
    const TreeNode& parent = nodes_[child.parent];
    if (child.kind == ValueKind::absent || parent.kind != ValueKind::object) return std::nullopt;
    path.insert(0, fmt::format("{}{}", text(entry(parent, child.parent_slot).key),
                               path.empty() ? "" : "."));
    index = child.parent;
  }
  return path;
}

std::vector<std::string> Tree::asked_paths() const {
  std::vector<std::string> paths;
  for (const auto& [index, keys] : asked_) {
    const std::optional<std::string> object = path_of(index);
    if (!object) continue;
    for (const std::string& key : keys)
      paths.push_back(object->empty() ? key : fmt::format("{}.{}", *object, key));
  }
  std::ranges::sort(paths);
  return paths;
}

}  // namespace sim
