// A parsed file as a flat tree: nodes in one vector, the entries of an object or list side by side
// in another, text in one pool. An alias is an entry that names an existing node, so that a file of
// aliases to aliases stays as small as it is written.
//
// Invariants: the entries of an object have different keys; nesting is at most `max_depth`; a node
// is reachable from the root over finitely many paths (no cycles); positions are 1-based lines and
// 0-based bytes within the line (turned into columns of characters when a problem is reported);
// line -n stands for the n-th change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/input_error.hpp"
#include "sim/config/change.hpp"

namespace sim {

struct TextPlace {
  std::int32_t line = 0;
  std::int32_t byte = 0;
};

enum class ValueKind : std::uint8_t {
  null,
  plain,   // a scalar without quotes: YAML decides by its look, JSON by its grammar
  quoted,  // always text
  object,
  list,
  absent,  // stands for a value that is missing or could not be read; conversions are silent
};

struct TextRange {
  std::uint32_t begin = 0;
  std::uint32_t size = 0;
};

using NodeIndex = std::uint32_t;
constexpr NodeIndex no_node = 0xffffffff;

struct TreeEntry {
  TextRange key;  // empty in lists
  TextPlace key_place;
  NodeIndex node = no_node;
  bool known = false;  // somebody asked for this key
};

struct TreeNode {
  ValueKind kind = ValueKind::null;
  bool json = false;      // plain scalars: a JSON number, true or false
  bool reported = false;  // a problem of this value is on the list already
  bool opened = false;    // objects: somebody reads it, so unknown keys in it are problems
  bool any_key = false;   // objects: unknown keys are allowed
  // Objects: reading may have stopped early (an unknown word, a contradiction), so keys that nobody
  // asked for are not unknown for sure.
  bool doubtful = false;
  TextPlace place;
  TextRange text;  // of a scalar
  std::uint32_t first_entry = 0;
  std::uint32_t entry_count = 0;
  NodeIndex parent = no_node;     // where it is written, for the name in messages
  std::uint32_t parent_slot = 0;  // its number among the parent's entries
};

class Tree {
 public:
  static constexpr int max_depth = 64;
  static constexpr std::size_t max_bytes = std::size_t{16} << 20;
  static constexpr std::size_t max_nodes = 2'000'000;
  static constexpr std::size_t max_problems = 20;

  // Checks size, encoding and control characters; throws InputError.
  Tree(std::string_view text, std::string name);

  // ---- Building, in the order of the file.
  NodeIndex add_scalar(TextPlace place, ValueKind kind, std::string_view text);
  NodeIndex open(TextPlace place, ValueKind kind);
  void add_key(TextPlace place,
               std::string_view key);  // of the open object; duplicates are refused
  void add_alias(TextPlace place, NodeIndex target);
  void close();
  // Once all is built. A key may be new, the section that it lies in may not. Throws InputError.
  void change(const Change& change);
  // An empty object at `key` of the root where it has none, for changes within it.
  void add_section(std::string_view key);
  bool is_open(NodeIndex node) const;
  bool wants_key() const;  // the open node is an object and its last entry is complete
  int depth() const { return static_cast<int>(open_.size()); }

  // ---- Reading.
  const std::string& name() const { return name_; }
  std::string_view source() const { return source_; }
  NodeIndex root() const { return root_; }
  TreeNode& node(NodeIndex index) { return nodes_[index]; }
  const TreeNode& node(NodeIndex index) const { return nodes_[index]; }
  TreeEntry& entry(const TreeNode& node, std::uint32_t slot) {
    return entries_[node.first_entry + slot];
  }
  const TreeEntry& entry(const TreeNode& node, std::uint32_t slot) const {
    return entries_[node.first_entry + slot];
  }
  std::string_view text(TextRange range) const {
    return std::string_view{pool_}.substr(range.begin, range.size);
  }
  const TreeEntry* find(NodeIndex object, std::string_view key) const;  // nullptr if it has none
  // The entry of `key`, marked as known; nullptr if the object has none.
  const TreeEntry* ask(NodeIndex object, std::string_view key);
  NodeIndex add_absent(TextPlace place, NodeIndex parent);
  // "layers", "stages[2]", "the file". REQUIRES: the node is written in the file.
  std::string display_name(NodeIndex node) const;
  // "layout.overlap.pipeline": what anybody has asked for so far, sorted; nothing within lists.
  std::vector<std::string> asked_paths() const;

  // ---- Problems.
  SourcePosition position(TextPlace place) const;
  std::size_t offset(TextPlace place) const;  // in source(); its end for a place beyond it
  std::string_view line_text(std::int32_t line) const;
  [[noreturn]] void fail(TextPlace place, const std::string& what) const;  // throws at once
  void report(TextPlace place, const std::string& what);
  void report_missing_key(TextPlace object, std::string_view key);
  // With `related`, keys that another part of that file knows are told where they belong, too.
  void report_unknown_keys(const Tree* related = nullptr);
  std::vector<Problem> problems() const;  // sorted by place
  void throw_problems();                  // if there are any

 private:
  struct OpenNode {
    NodeIndex node = no_node;
    std::vector<TreeEntry> entries;
  };
  struct Found {
    TextPlace place;
    std::string what;
    bool missing = false;  // `what` is the name of a key that the object at `place` lacks
  };

  Problem to_problem(const Found& found) const;
  NodeIndex add_node(TextPlace place, ValueKind kind);
  TextRange store(std::string_view text);
  NodeIndex written(NodeIndex node) const;
  std::optional<std::string> path_of(NodeIndex node) const;
  void insert(NodeIndex object, std::string_view key, NodeIndex child);
  void sort_keys(const TreeNode& object);  // the newest one
  void refuse_duplicates(const OpenNode& object);
  void report_unknown_keys_of(NodeIndex object, const Tree* related);
  std::string unknown_key_text(NodeIndex object, const TreeEntry& unknown, const Tree* related);
  std::string home_of(std::string_view key, NodeIndex but) const;
  std::string home_text(std::string_view key, NodeIndex but, const Tree* related) const;
  void withdraw_missing_key(TextPlace object, std::string_view key);

  std::string name_;
  std::string source_;
  std::vector<std::uint32_t> line_starts_;
  std::string pool_;
  std::vector<TreeNode> nodes_;
  std::vector<TreeEntry> entries_;
  // Slots of the entries of each object, sorted by key; parallel to entries_.
  std::vector<std::uint32_t> by_key_;
  std::vector<OpenNode> open_;
  std::vector<Change> changes_;
  std::map<NodeIndex, NodeIndex> replaces_;  // by the node of a change: that of the file
  NodeIndex root_ = no_node;
  std::map<NodeIndex, std::vector<std::string>> asked_;  // per object, in order of asking
  std::vector<Found> found_;
};

}  // namespace sim
