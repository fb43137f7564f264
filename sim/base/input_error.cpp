#include "sim/base/input_error.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/base/printable.hpp"

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

// Edits between two words, where swapping two neighbours is one edit ("optimal string alignment").
std::size_t edit_distance(std::string_view a, std::string_view b) {
  const std::size_t width = b.size() + 1;
  std::vector<std::size_t> cost((a.size() + 1) * width);
  for (std::size_t i = 0; i <= a.size(); ++i)
    cost[i * width] = i;
  for (std::size_t j = 0; j <= b.size(); ++j)
    cost[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t at = i * width + j;
      const std::size_t substituted = cost[at - width - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[at] = std::min({cost[at - width] + 1, cost[at - 1] + 1, substituted});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        cost[at] = std::min(cost[at], cost[at - 2 * width - 2] + 1);
    }
  }
  return cost.back();
}

bool continues_character(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

// The part of a long line that is worth showing: about `limit` bytes around `at`, cut between
// characters. Files of other programs may be a single line of a megabyte.
struct Excerpt {
  std::string_view text;
  std::size_t at = 0;  // of the caret, within text
};

Excerpt excerpt_of(std::string_view line, std::size_t at) {
  constexpr std::size_t limit = 120;
  if (line.size() <= limit) return {line, at};
  std::size_t begin = at > limit / 2 ? at - limit / 2 : 0;
  while (begin > 0 && continues_character(line[begin]))
    --begin;
  std::size_t end = std::min(begin + limit, line.size());
  while (end < line.size() && continues_character(line[end]))
    ++end;
  return {line.substr(begin, end - begin), at - begin};
}

}  // namespace

std::string to_text(const Problem& problem) {
  const SourcePosition& where = problem.where;
  std::string text = printable(where.file);
  if (where.line > 0) text += ':' + std::to_string(where.line) + ':' + std::to_string(where.column);
  text += ": error: " + printable(problem.what);
  if (problem.source_line.empty() || where.column < 1) return text;
  // Columns count characters, not bytes; beyond the end of the line the caret stands at its end.
  const std::string_view line = problem.source_line;
  std::size_t at = 0;
  for (int column = 1; column < where.column && at < line.size(); ++column) {
    ++at;
    while (at < line.size() && continues_character(line[at]))
      ++at;
  }
  const Excerpt excerpt = excerpt_of(line, at);
  // Tabs are kept in the caret line, so that it stays below its column in any terminal.
  std::string caret;
  for (const char c : excerpt.text.substr(0, excerpt.at))
    if (!continues_character(c)) caret += c == '\t' ? '\t' : ' ';
  text += "\n  ";
  text += excerpt.text;
  return text + "\n  " + caret + '^';
}

InputError::InputError(std::vector<Problem> problems)
    : std::runtime_error(joined(problems)), problems_{std::move(problems)} {}

InputError::InputError(SourcePosition where, std::string what)
    : InputError(std::vector<Problem>{{std::move(where), std::move(what), {}}}) {}

std::string_view nearest_name(std::string_view word,
                              const std::vector<std::string_view>& candidates) {
  // In a word of two letters only one may be wrong: "tp" is not meant by every other pair.
  constexpr std::size_t longest = 64;  // no name of ours is longer
  if (word.size() > longest) return {};
  std::string_view best;
  std::size_t best_distance = (word.size() < 4 ? 1 : std::max<std::size_t>(2, word.size() / 3)) + 1;
  for (const std::string_view candidate : candidates) {
    if (candidate.size() > longest) continue;
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace sim
