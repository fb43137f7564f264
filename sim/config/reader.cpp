#include "sim/config/reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/config/scalars.hpp"
#include "sim/config/tree.hpp"

namespace sim {
namespace {

std::string shortened(std::string_view text) {
  constexpr std::size_t limit = 60;
  if (text.size() <= limit) return std::string{text};
  std::size_t end = limit;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U)
    --end;
  return std::string{text.substr(0, end)} + "...";
}

// "is 'abc'", "is a list": the second half of a sentence about a value.
std::string description(const Tree& tree, const TreeNode& node) {
  switch (node.kind) {
    case ValueKind::object:
      return "is an object";
    case ValueKind::list:
      return "is a list";
    case ValueKind::null:
    case ValueKind::absent:
      return "is empty";
    case ValueKind::quoted:
      return fmt::format("is the text '{}'", shortened(tree.text(node.text)));
    case ValueKind::plain:
      break;
  }
  return fmt::format("is '{}'", shortened(tree.text(node.text)));
}

// Nothing more is said about a value that is missing or has a problem already.
bool silent(const Tree& tree, NodeIndex index) {
  const TreeNode& node = tree.node(index);
  return node.kind == ValueKind::absent || node.reported;
}

// Records a problem of a value, once: what is found later in the same value follows from the first.
void report(Tree& tree, NodeIndex index, const std::string& what) {
  if (silent(tree, index)) return;
  tree.node(index).reported = true;
  tree.report(tree.node(index).place, what);
}

void report_wrong_type(Tree& tree, NodeIndex index, std::string_view expected) {
  if (silent(tree, index)) return;
  report(tree, index,
         fmt::format("{} {}; expected {}", tree.display_name(index),
                     description(tree, tree.node(index)), expected));
}

// After a wrong word the reader of the object may go another way, and leave keys aside that the
// right word would have asked for. A wrong number does not change the way.
void doubt_object_of(Tree& tree, NodeIndex index) {
  const NodeIndex parent = tree.node(index).parent;
  if (parent != no_node) tree.node(parent).doubtful = true;
}

bool is_word(const Tree& tree, NodeIndex index) {
  const TreeNode& node = tree.node(index);
  return (node.kind == ValueKind::plain || node.kind == ValueKind::quoted) &&
         !std::holds_alternative<double>(parse_real(tree.text(node.text)));
}

template <class Number>
std::string allowed_range(Number min, Number max) {
  if (max == std::numeric_limits<Number>::max()) return fmt::format("allowed: {} or more", min);
  if (min == std::numeric_limits<Number>::lowest()) return fmt::format("allowed: at most {}", max);
  return min == max ? fmt::format("allowed: {}", min) : fmt::format("allowed: {} to {}", min, max);
}

template <class Number, class Range>
Number checked_number(Tree& tree, NodeIndex index, const ParsedNumber<Number>& parsed,
                      const Range& range, std::string_view expected) {
  const std::string_view text = tree.text(tree.node(index).text);
  const std::string name = tree.display_name(index);
  if (const Number* value = std::get_if<Number>(&parsed)) {
    if (*value >= range.min && *value <= range.max) return *value;
    report(tree, index,
           fmt::format("{} is {}; {}", name, shortened(text), allowed_range(range.min, range.max)));
    return range.min;
  }
  switch (std::get<NumberProblem>(parsed)) {
    case NumberProblem::not_a_number:
      report_wrong_type(tree, index, expected);
      break;
    case NumberProblem::octal_looking:
      report(tree, index,
             fmt::format("{} is {}, which some programs read as octal; write it without leading "
                         "zeros",
                         name, shortened(text)));
      break;
    case NumberProblem::too_large:
      report(tree, index,
             fmt::format("{} is {}, beyond what can be represented; {}", name, shortened(text),
                         allowed_range(range.min, range.max)));
      break;
    case NumberProblem::not_finite:
      report(tree, index,
             fmt::format("{} is {}, which is not a number; expected {}", name, text, expected));
      break;
  }
  return range.min;
}

template <class Quantity>
Quantity quantity_of(Tree& tree, NodeIndex index, Parsed<Quantity> (*parse)(std::string_view),
                     Quantity harmless, std::string_view expected) {
  const TreeNode& node = tree.node(index);
  if (node.kind != ValueKind::plain && node.kind != ValueKind::quoted) {
    report_wrong_type(tree, index, expected);
    return harmless;
  }
  const Parsed<Quantity> parsed = parse(tree.text(node.text));
  if (const Quantity* value = std::get_if<Quantity>(&parsed)) return *value;
  report(tree, index, std::get<QuantityError>(parsed).problem);
  return harmless;
}

}  // namespace

// ---- ValueReader

bool ValueReader::is_object() const {
  return tree_->node(node_).kind == ValueKind::object;
}
bool ValueReader::is_list() const {
  return tree_->node(node_).kind == ValueKind::list;
}
bool ValueReader::is_scalar() const {
  const ValueKind kind = tree_->node(node_).kind;
  return kind == ValueKind::plain || kind == ValueKind::quoted;
}

std::optional<std::string> ValueReader::peek_text() const {
  if (!is_scalar()) return std::nullopt;
  return std::string{tree_->text(tree_->node(node_).text)};
}

std::string ValueReader::text() const {
  const TreeNode& node = tree_->node(node_);
  // In YAML quotes around text are optional, in JSON they are what makes it text.
  if (!is_scalar() || node.json) {
    report_wrong_type(*tree_, node_, "text");
    return {};
  }
  return std::string{tree_->text(node.text)};
}

std::int64_t ValueReader::integer(IntegerRange range) const {
  const TreeNode& node = tree_->node(node_);
  if (node.kind != ValueKind::plain) {
    report_wrong_type(*tree_, node_, "an integer");
    return range.min;
  }
  return checked_number(*tree_, node_, parse_integer(tree_->text(node.text), node.json), range,
                        "an integer");
}

double ValueReader::real(RealRange range) const {
  const TreeNode& node = tree_->node(node_);
  if (node.kind != ValueKind::plain) {
    report_wrong_type(*tree_, node_, "a number");
    return range.min;
  }
  return checked_number(*tree_, node_, parse_real(tree_->text(node.text)), range, "a number");
}

bool ValueReader::boolean() const {
  const TreeNode& node = tree_->node(node_);
  const std::string_view text = tree_->text(node.text);
  if (node.kind == ValueKind::plain && (text == "true" || text == "false")) return text == "true";
  report_wrong_type(*tree_, node_, "true or false");
  return false;
}

Bytes ValueReader::bytes() const {
  return quantity_of(*tree_, node_, parse_bytes, Bytes{}, "a size such as 25 MiB");
}
Bandwidth ValueReader::bandwidth() const {
  return quantity_of(*tree_, node_, parse_bandwidth, Bandwidth::bytes_per_second(1),
                     "a bandwidth such as 400 Gbps or 50 GB/s");
}
Duration ValueReader::duration() const {
  return quantity_of(*tree_, node_, parse_duration, Duration{}, "a time such as 2.5 us");
}
FlopRate ValueReader::flop_rate() const {
  return quantity_of(*tree_, node_, parse_flop_rate, FlopRate::per_second(1),
                     "a rate such as 989 TFLOP/s");
}
Flops ValueReader::flops() const {
  return quantity_of(*tree_, node_, parse_flops, Flops{}, "an amount of work such as 6.5 TFLOP");
}

std::vector<ValueReader> ValueReader::list() const {
  const TreeNode& node = tree_->node(node_);
  std::vector<ValueReader> items;
  if (node.kind != ValueKind::list) {
    report_wrong_type(*tree_, node_, "a list");
    return items;
  }
  items.reserve(node.entry_count);
  for (std::uint32_t slot = 0; slot < node.entry_count; ++slot)
    items.emplace_back(tree_, tree_->entry(node, slot).node);
  return items;
}

ObjectReader ValueReader::object() const {
  TreeNode& node = tree_->node(node_);
  if (node.kind == ValueKind::object) {
    node.opened = true;
    return {tree_, node_};
  }
  report_wrong_type(*tree_, node_, "an object (key: value)");
  return {tree_, tree_->add_absent(node.place, node.parent)};
}

SourcePosition ValueReader::where() const {
  return tree_->position(tree_->node(node_).place);
}

void ValueReader::problem(const std::string& what) const {
  if (is_word(*tree_, node_)) doubt_object_of(*tree_, node_);
  const TreeNode& node = tree_->node(node_);
  if (node.kind == ValueKind::object || node.kind == ValueKind::list)
    tree_->report(node.place, what);  // there may be several about one of these
  else
    report(*tree_, node_, what);
}

// ---- ObjectReader

bool ObjectReader::has(std::string_view key) const {
  return find(key).has_value();
}

std::optional<ValueReader> ObjectReader::find(std::string_view key) const {
  const TreeEntry* entry = tree_->ask(node_, key);
  if (entry == nullptr || tree_->node(entry->node).kind == ValueKind::null) return std::nullopt;
  return ValueReader{tree_, entry->node};
}

ValueReader ObjectReader::at(std::string_view key) const {
  if (const TreeEntry* entry = tree_->ask(node_, key)) return {tree_, entry->node};
  const TreeNode& node = tree_->node(node_);
  const TextPlace place = node.place;
  if (node.kind == ValueKind::object) tree_->report_missing_key(place, key);
  return {tree_, tree_->add_absent(place, node_)};
}

std::int64_t ObjectReader::integer(std::string_view key, IntegerRange range) const {
  return at(key).integer(range);
}
double ObjectReader::real(std::string_view key, RealRange range) const {
  return at(key).real(range);
}

std::string ObjectReader::text_or(std::string_view key, std::string_view fallback) const {
  const auto value = find(key);
  return value ? value->text() : std::string{fallback};
}
std::int64_t ObjectReader::integer_or(std::string_view key, std::int64_t fallback,
                                      IntegerRange range) const {
  const auto value = find(key);
  return value ? value->integer(range) : fallback;
}
double ObjectReader::real_or(std::string_view key, double fallback, RealRange range) const {
  const auto value = find(key);
  return value ? value->real(range) : fallback;
}
bool ObjectReader::boolean_or(std::string_view key, bool fallback) const {
  const auto value = find(key);
  return value ? value->boolean() : fallback;
}
Bytes ObjectReader::bytes_or(std::string_view key, Bytes fallback) const {
  const auto value = find(key);
  return value ? value->bytes() : fallback;
}
Bandwidth ObjectReader::bandwidth_or(std::string_view key, Bandwidth fallback) const {
  const auto value = find(key);
  return value ? value->bandwidth() : fallback;
}
Duration ObjectReader::duration_or(std::string_view key, Duration fallback) const {
  const auto value = find(key);
  return value ? value->duration() : fallback;
}

void ObjectReader::report_unknown_word(const ValueReader& value, const std::string& text,
                                       const std::vector<std::string_view>& allowed) {
  Tree& tree = *value.tree_;
  doubt_object_of(tree, value.node_);
  if (silent(tree, value.node_)) return;
  const std::string_view meant = nearest_name(text, allowed);
  const std::string hint = meant.empty() ? "" : fmt::format("did you mean '{}'? ", meant);
  report(tree, value.node_,
         fmt::format("{} is '{}'; {}allowed: {}", tree.display_name(value.node_), shortened(text),
                     hint, fmt::join(allowed, ", ")));
}

std::vector<std::string> ObjectReader::unasked_keys() const {
  TreeNode& node = tree_->node(node_);
  std::vector<std::string> names;
  if (node.kind != ValueKind::object) return names;
  node.opened = true;
  for (std::uint32_t slot = 0; slot < node.entry_count; ++slot)
    if (const TreeEntry& entry = tree_->entry(node, slot); !entry.known)
      names.emplace_back(tree_->text(entry.key));
  return names;
}

std::vector<std::string> ObjectReader::keys() const {
  TreeNode& node = tree_->node(node_);
  std::vector<std::string> names;
  if (node.kind != ValueKind::object) return names;
  node.opened = true;
  for (std::uint32_t slot = 0; slot < node.entry_count; ++slot) {
    TreeEntry& entry = tree_->entry(node, slot);
    entry.known = true;
    names.emplace_back(tree_->text(entry.key));
  }
  return names;
}

void ObjectReader::ignore_unknown() const {
  tree_->node(node_).any_key = true;
}

SourcePosition ObjectReader::where() const {
  return tree_->position(tree_->node(node_).place);
}

SourcePosition ObjectReader::where(std::string_view key) const {
  const TreeEntry* entry = tree_->find(node_, key);
  return entry == nullptr ? where() : tree_->position(tree_->node(entry->node).place);
}

void ObjectReader::problem(const std::string& what) const {
  ValueReader{tree_, node_}.problem(what);
}

void ObjectReader::problem(std::string_view key, const std::string& what) const {
  const TreeEntry* entry = tree_->find(node_, key);
  if (entry == nullptr)
    problem(what);
  else
    ValueReader{tree_, entry->node}.problem(what);
}

}  // namespace sim
