#include "sim/base/input_error.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace sim {
namespace {

std::string joined(const std::vector<Problem>& problems) {
  std::string text;
  for (const Problem& problem : problems) {
    if (!text.empty()) text += '\n';
    text += to_text(problem);
  }
  return text;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, substituted}));
    }
  }
  return row.back();
}

}  // namespace

std::string to_text(const Problem& problem) {
  const SourcePosition& where = problem.where;
  std::string text = where.file;
  if (where.line > 0)
    text += ':' + std::to_string(where.line) + ':' + std::to_string(where.column);
  text += ": error: " + problem.what;
  if (problem.source_line.empty() || where.column < 1) return text;
  // Tabs are kept in the caret line, so that it stays below its column in any terminal.
  std::string caret;
  for (int i = 0; i + 1 < where.column; ++i) {
    const auto at = static_cast<std::size_t>(i);
    caret += at < problem.source_line.size() && problem.source_line[at] == '\t' ? '\t' : ' ';
  }
  return text + "\n  " + problem.source_line + "\n  " + caret + '^';
}

InputError::InputError(std::vector<Problem> problems)
    : std::runtime_error(joined(problems)), problems_{std::move(problems)} {}

InputError::InputError(SourcePosition where, std::string what)
    : InputError(std::vector<Problem>{{std::move(where), std::move(what), {}}}) {}

std::string_view nearest_name(std::string_view word,
                              const std::vector<std::string_view>& candidates) {
  std::string_view best;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string_view candidate : candidates) {
    const std::size_t distance = edit_distance(word.substr(0, 64), candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace sim
