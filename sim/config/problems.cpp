// The part of Tree that collects and words problems.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "sim/base/near_names.hpp"
#include "sim/config/tree.hpp"

namespace sim {

namespace {

constexpr std::size_t most_told = 1000;  // problems that are still worded with care

// "missing key 'a'", "missing keys 'a', 'b' and 'c'".
std::string missing_text(const std::vector<std::string>& keys) {
  std::string text = keys.size() == 1 ? "missing key " : "missing keys ";
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (i > 0) text += i + 1 == keys.size() ? " and " : ", ";
    text += fmt::format("'{}'", keys[i]);
  }
  return text;
}

}  // namespace

std::string_view Tree::line_text(std::int32_t line) const {
  const auto number = static_cast<std::size_t>(line);
  if (line < 1 || number > line_starts_.size()) return {};
  const std::size_t begin = line_starts_[number - 1];
  const std::size_t end = number < line_starts_.size() ? line_starts_[number] - 1 : source_.size();
  std::string_view text = std::string_view{source_}.substr(begin, end - begin);
  if (text.ends_with('\r')) text.remove_suffix(1);
  return text;
}

SourcePosition Tree::position(TextPlace place) const {
  if (place.line < 1) return {name_, 0, 0};
  const std::string_view line = line_text(place.line);
  const auto byte = std::min(static_cast<std::size_t>(std::max(place.byte, 0)), line.size());
  const auto characters = std::ranges::count_if(line.substr(0, byte), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  });
  return {name_, place.line, static_cast<int>(characters) + 1};
}

std::size_t Tree::offset(TextPlace place) const {
  const auto line = static_cast<std::size_t>(place.line);
  if (place.line < 1 || line > line_starts_.size()) return source_.size();
  return std::min(line_starts_[line - 1] + static_cast<std::size_t>(place.byte), source_.size());
}

void Tree::fail(TextPlace place, const std::string& what) const {
  std::vector<Problem> problems;
  problems.push_back(to_problem({place, what}));
  throw InputError(std::move(problems));
}

Problem Tree::to_problem(const Found& found) const {
  Problem problem;
  problem.where = position(found.place);
  problem.what = found.what;
  problem.source_line = line_text(found.place.line);
  if (found.place.line < 0) {
    const Change& change = changes_[static_cast<std::size_t>(-found.place.line) - 1];
    problem.what += fmt::format(" (where '{}' is changed to '{}')", change.key, change.value);
  }
  return problem;
}

void Tree::report(TextPlace place, const std::string& what) {
  // A value that is read twice, or over two aliases, is one mistake.
  const auto same = [&](const Found& found) {
    return found.place.line == place.line && found.place.byte == place.byte && found.what == what &&
           !found.missing;
  };
  if (found_.size() < most_told && std::ranges::any_of(found_, same)) return;
  found_.push_back({place, what});
}

void Tree::report_missing_key(TextPlace object, std::string_view key) {
  if (found_.size() < most_told) withdraw_missing_key(object, key);  // once is enough
  found_.push_back({object, std::string{key}, true});
}

// A misspelt key is one mistake, not a missing key and an unknown one.
void Tree::withdraw_missing_key(TextPlace object, std::string_view key) {
  std::erase_if(found_, [&](const Found& found) {
    return found.missing && found.place.line == object.line && found.place.byte == object.byte &&
           found.what == key;
  });
}

// Where a key is known that is not known in `but`, here or in `related`; or nothing.
std::string Tree::home_text(std::string_view key, NodeIndex but, const Tree* related) const {
  const std::string home = home_of(key, but);
  if (!home.empty()) return "it belongs " + home;
  return related ? related->home_text(key, no_node, nullptr) : std::string{};
}

std::string Tree::home_of(std::string_view key, NodeIndex but) const {
  for (const auto& [index, asked] : asked_) {
    const TreeNode& node = nodes_[index];
    if (index == but || node.kind != ValueKind::object) continue;
    const bool top = node.parent == no_node;
    if (!top && nodes_[node.parent].kind == ValueKind::list) continue;
    if (std::ranges::find(asked, key) == asked.end()) continue;
    return top ? "at the top of the file" : fmt::format("in '{}'", display_name(index));
  }
  return {};
}

std::string Tree::unknown_key_text(NodeIndex object, const TreeEntry& unknown,
                                   const Tree* related) {
  const std::vector<std::string>& asked = asked_[object];
  const std::vector<std::string_view> known{asked.begin(), asked.end()};
  const std::string_view key = text(unknown.key);
  const std::string what = fmt::format("unknown key '{}'; ", key.substr(0, 80));
  if (key == "<<") return what + "merge keys are not supported";
  const std::string home = home_text(key, object, related);
  if (!home.empty()) return what + home;
  return what + (known.empty() ? "no keys are allowed here" : choices_text(key, known));
}

void Tree::report_unknown_keys_of(NodeIndex index, const Tree* related) {
  const TreeNode& object = nodes_[index];
  // Names that are free: a misspelt key is more likely meant for one that is not there yet.
  std::vector<std::string_view> absent;
  for (const std::string& name : asked_[index])
    if (find(index, name) == nullptr) absent.emplace_back(name);
  for (std::uint32_t slot = 0; slot < object.entry_count; ++slot) {
    const TreeEntry& entry = this->entry(object, slot);
    const std::string_view key = text(entry.key);
    // The second of two alike has been refused for that.
    if (entry.known || find(index, key) != &entry) continue;
    if (found_.size() >= most_told) {  // nobody will be shown more
      report(entry.key_place, fmt::format("unknown key '{}'", key.substr(0, 80)));
      continue;
    }
    const bool has_home = !home_text(key, index, related).empty();
    const std::string_view meant = has_home ? std::string_view{} : nearest_name(key, absent);
    if (object.doubtful && meant.empty()) continue;
    if (!meant.empty()) withdraw_missing_key(object.place, meant);
    report(entry.key_place, meant.empty() ? unknown_key_text(index, entry, related)
                                          : fmt::format("unknown key '{}'; did you mean '{}'?",
                                                        key.substr(0, 80), meant));
  }
}

void Tree::report_unknown_keys(const Tree* related) {
  for (NodeIndex index = 0; index < nodes_.size(); ++index) {
    const TreeNode& node = nodes_[index];
    if (node.kind == ValueKind::object && node.opened && !node.any_key)
      report_unknown_keys_of(index, related);
  }
}

// In the order of the file; what one object lacks is one problem.
std::vector<Problem> Tree::problems() const {
  std::vector<Found> sorted = found_;
  const auto place_of = [](const Found& found) {
    return std::tuple{found.place.line, found.place.byte, !found.missing};
  };
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const Found& a, const Found& b) { return place_of(a) < place_of(b); });
  std::vector<Problem> problems;
  for (std::size_t i = 0; i < sorted.size();) {
    if (problems.size() == max_problems) {
      problems.push_back(to_problem({{}, fmt::format("and {} more problems", sorted.size() - i)}));
      break;
    }
    const std::size_t first = i;
    std::vector<std::string> keys;
    while (i < sorted.size() && sorted[i].missing && place_of(sorted[i]) == place_of(sorted[first]))
      keys.push_back(sorted[i++].what);
    if (keys.empty())
      problems.push_back(to_problem(sorted[i++]));
    else
      problems.push_back(to_problem({sorted[first].place, missing_text(keys)}));
  }
  return problems;
}

void Tree::throw_problems() {
  if (!found_.empty()) throw InputError(problems());
}

}  // namespace sim
