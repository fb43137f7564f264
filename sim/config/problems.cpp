// The part of Tree that collects and words problems.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/config/tree.hpp"

namespace sim {

std::string missing_key(std::string_view key) {
  return fmt::format("missing key '{}'", key);
}

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
    return found.place.line == place.line && found.place.byte == place.byte && found.what == what;
  };
  if (found_.size() < 1000 && std::ranges::any_of(found_, same)) return;
  found_.push_back({place, what});
}

// A misspelt key is one mistake, not a missing key and an unknown one.
void Tree::withdraw_missing_key(TextPlace object, std::string_view key) {
  const std::string what = missing_key(key);
  std::erase_if(found_, [&](const Found& found) {
    return found.place.line == object.line && found.place.byte == object.byte && found.what == what;
  });
}

void Tree::report_unknown_keys_of(NodeIndex index) {
  const TreeNode& object = nodes_[index];
  const std::vector<std::string>& asked = asked_[index];
  // Names that are free: a misspelt key is more likely meant for one that is not there yet.
  std::vector<std::string_view> absent;
  std::vector<std::string_view> all;
  for (const std::string& name : asked) {
    all.emplace_back(name);
    if (find(index, name) == nullptr) absent.emplace_back(name);
  }
  for (std::uint32_t slot = 0; slot < object.entry_count; ++slot) {
    const TreeEntry& entry = this->entry(object, slot);
    if (entry.known) continue;
    const std::string_view key = text(entry.key);
    std::string_view meant = nearest_name(key, absent);
    if (object.doubtful && meant.empty()) continue;
    if (!meant.empty()) withdraw_missing_key(object.place, meant);
    if (meant.empty()) meant = nearest_name(key, all);
    std::string what = fmt::format("unknown key '{}'; ", key.substr(0, 80));
    if (key == "<<")
      what += "merge keys are not supported";
    else if (!meant.empty())
      what += fmt::format("did you mean '{}'?", meant);
    else if (all.empty())
      what += "no keys are allowed here";
    else
      what += fmt::format("allowed: {}", fmt::join(all, ", "));
    report(entry.key_place, what);
  }
}

void Tree::report_unknown_keys() {
  for (NodeIndex index = 0; index < nodes_.size(); ++index) {
    const TreeNode& node = nodes_[index];
    if (node.kind == ValueKind::object && node.opened && !node.any_key)
      report_unknown_keys_of(index);
  }
}

void Tree::throw_problems() {
  if (found_.empty()) return;
  std::stable_sort(found_.begin(), found_.end(), [](const Found& a, const Found& b) {
    return std::pair{a.place.line, a.place.byte} < std::pair{b.place.line, b.place.byte};
  });
  std::vector<Problem> problems;
  for (const Found& found : found_) {
    if (problems.size() == max_problems) {
      const std::size_t more = found_.size() - max_problems;
      problems.push_back(to_problem({{}, fmt::format("and {} more problems", more)}));
      break;
    }
    problems.push_back(to_problem(found));
  }
  throw InputError(std::move(problems));
}

}  // namespace sim
