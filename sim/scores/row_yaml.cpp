#include "sim/scores/row_yaml.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/scenario/write_scenario.hpp"
#include "sim/scores/predict.hpp"

namespace sim {
namespace {

std::string head(const MeasuredSet& set, const MeasuredRow& row) {
  std::string text = fmt::format("{}: {}\nuse: {}", row.id, set.source, word(row.use));
  if (row.has_time())
    text +=
        fmt::format("\nmeasured: {:.6g} s of a {}", to_seconds(row.measured), word(set.quantity));
  else
    text += fmt::format("\nmeasured: {}", word(row.outcome));
  if (!row.evidence.empty()) text += "\nas printed: " + row.evidence;
  for (const std::string& assumption : row.assumptions)
    text += "\nassumed: " + assumption;
  for (const std::string& inferred : row.inferred)
    text += "\nfrom words: " + inferred;
  for (const std::string& filled : row.defaults)
    text += "\nfor an empty cell: " + filled;
  return text;
}

}  // namespace

bool names_a_file(const std::string& row_id) {
  return !row_id.empty() && row_id.front() != '.' && std::ranges::all_of(row_id, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
}

std::string row_yaml(const MeasuredSet& set, const MeasuredRow& row, const std::string& folder) {
  return scenario_yaml(row_scenario(set, row), folder, head(set, row));
}

}  // namespace sim
