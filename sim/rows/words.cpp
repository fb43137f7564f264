#include "sim/rows/words.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>

#include "sim/config/reader.hpp"
#include "sim/rows/measured_rows.hpp"
#include "sim/rows/row_keys.hpp"
#include "sim/rows/run_words.hpp"

namespace sim {
namespace {

constexpr std::string_view alternative = " | ";
constexpr std::string_view at_least = " >= ";

bool has_version(std::string_view cell, std::string_view pattern, std::size_t at) {
  const auto behind = version_behind(cell, fmt::format("{} ", pattern.substr(0, at)));
  return behind && *behind >= *version_behind(pattern, at_least);
}

bool matches(std::string_view cell, std::string_view pattern) {
  if (const std::size_t end = pattern.find(alternative); end != std::string_view::npos)
    return matches(cell, pattern.substr(0, end)) ||
           matches(cell, pattern.substr(end + alternative.size()));
  if (pattern.starts_with('^')) return cell.starts_with(pattern.substr(1));
  if (pattern.starts_with('=')) return cell == pattern.substr(1);
  if (const std::size_t at = pattern.find(at_least); at != std::string_view::npos)
    return has_version(cell, pattern, at);
  return contains(cell, pattern);
}

std::string cell_of(const RunCells& cells, const std::string& column) {
  if (!contains(column, ".")) return lower_case(cells[column]);
  const auto key = cells.keys.find(column);
  return key == cells.keys.end() ? std::string{} : key->second;
}

// The columns that say it; of a condition that holds because none does, an empty list.
std::optional<std::vector<std::string>> columns_that_say(const WordCondition& condition,
                                                         const RunCells& cells) {
  const std::string_view pattern = condition.pattern;
  const bool inverted = pattern.starts_with('!');
  std::vector<std::string> said;
  for (const std::string& column : condition.columns)
    if (matches(cell_of(cells, column), pattern.substr(inverted ? 1 : 0))) said.push_back(column);
  if (said.empty() != inverted) return std::nullopt;
  return said;
}

constexpr std::string_view no_evidence = "no cell says another";

// "'fsdp2' in shard_strategy", or nothing where the rule does not hold.
std::optional<std::string> evidence(const WordRule& rule, const RunCells& cells) {
  std::vector<std::string> parts;
  for (const WordCondition& condition : rule.when) {
    const auto said = columns_that_say(condition, cells);
    if (!said) return std::nullopt;
    for (const std::string& column : *said)
      if (!contains(column, "."))
        parts.push_back(fmt::format("'{}' in {}", condition.pattern, column));
  }
  return parts.empty() ? std::string{no_evidence} : fmt::format("{}", fmt::join(parts, ", "));
}

bool is_set(const std::string& name, const RunCells& cells) {
  return contains(name, ".") ? cells.keys.contains(name) : !is_open_cell(cells[name]);
}

WordCondition read_condition(const std::string& listed, const ValueReader& value) {
  WordCondition condition;
  std::istringstream names{listed};
  for (std::string name; names >> name;)
    condition.columns.push_back(name);
  condition.pattern = value.text();
  const bool column_is_known = std::ranges::all_of(condition.columns, [](const std::string& name) {
    return contains(name, ".") ? problem_of_key(name).empty() : is_run_column(name);
  });
  if (!column_is_known) value.problem(fmt::format("there is no column '{}'", listed));
  const std::size_t at = condition.pattern.find(at_least);
  if (at != std::string::npos && !version_behind(condition.pattern, at_least))
    value.problem("needs a version, such as 2.3, behind '>='");
  return condition;
}

WordRule read_rule(const ObjectReader& in) {
  WordRule rule;
  const ObjectReader when = in.object("when"), set = in.object("set");
  for (const std::string& listed : when.keys()) {
    const ValueReader value = when.at(listed);
    if (!value.is_list()) rule.when.push_back(read_condition(listed, value));
    if (value.is_list())
      for (const ValueReader& item : value.list())
        rule.when.push_back(read_condition(listed, item));
  }
  for (const std::string& name : set.keys()) {
    const ValueReader value = set.at(name);
    const std::string problem = is_run_column(name) ? "" : problem_of_key(name);
    if (!problem.empty()) value.problem(problem);
    rule.set.emplace_back(name, value.text());
  }
  return rule;
}

}  // namespace

std::vector<WordRule> load_words(const std::string& path) {
  const Document document = Document::load(path);
  std::vector<WordRule> rules;
  for (const ValueReader& entry : document.root_object().list("rules"))
    rules.push_back(read_rule(entry.object()));
  document.finish();
  return rules;
}

std::vector<std::string> read_words(const std::vector<WordRule>& rules, RunCells& cells) {
  std::vector<std::string> said;
  if (rules.empty() || cells.keys.contains("framework.name")) return said;
  cells.is_read_from_words = true;
  for (const WordRule& rule : rules) {
    const std::optional<std::string> why = evidence(rule, cells);
    if (!why) continue;
    for (const auto& [name, value] : rule.set) {
      if (is_set(name, cells)) continue;
      (contains(name, ".") ? cells.keys : cells.text).insert_or_assign(name, value);
      if (name == "framework.name") cells.names_framework = *why != no_evidence;
      said.push_back(fmt::format("{}: {}, {}", name, value, *why));
    }
  }
  return said;
}

}  // namespace sim
