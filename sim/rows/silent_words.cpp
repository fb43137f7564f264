#include "sim/rows/silent_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "sim/base/input_error.hpp"
#include "sim/rows/measured_rows.hpp"
#include "sim/rows/run_scenario.hpp"

namespace sim {
namespace {

struct SpokenColumn {
  std::string_view name;
  bool first = true;  // else an unknown first phrase is refused
};
constexpr std::array spoken_columns{
    SpokenColumn{"shard_strategy"},    SpokenColumn{"overlap"},
    SpokenColumn{"optimizer"},         SpokenColumn{"notes"},
    SpokenColumn{"recompute", false},  SpokenColumn{"precision", false},
    SpokenColumn{"pp_schedule", false}};

// The framework and layout of a row.
struct Meaning {
  Framework framework;
  Layout layout;
  bool operator==(const Meaning&) const = default;
};

// Nothing where it cannot be simulated.
std::optional<Meaning> meaning_of(RunCells cells, const std::vector<WordRule>& rules) {
  try {
    static_cast<void>(read_words(rules, cells));
    static_cast<void>(fill_empty_cells(cells));
    return Meaning{run_framework(cells), run_layout(cells)};
  } catch (const NotSimulated&) {
    return std::nullopt;
  } catch (const InputError&) {
    return std::nullopt;
  }
}

struct Phrase {
  std::size_t begin = 0, length = 0;
};

std::vector<Phrase> phrases_of(std::string_view cell) {
  std::vector<Phrase> found;
  for (std::size_t begin = 0; begin < cell.size();) {
    const std::size_t end = std::min(cell.find_first_of(",;", begin), cell.size());
    std::size_t first = begin, last = end;
    while (first < last && cell[first] == ' ')
      ++first;
    while (last > first && cell[last - 1] == ' ')
      --last;
    if (last > first) found.push_back({first, last - first});
    begin = end + 1;
  }
  return found;
}

}  // namespace

std::vector<std::string> silent_words(const RunCells& written, const std::vector<WordRule>& rules) {
  const bool named = written.keys.contains("framework.name");
  const std::optional<Meaning> meaning = meaning_of(written, rules);
  std::vector<std::string> silent;
  if (!meaning) return silent;
  for (const SpokenColumn& column : spoken_columns) {
    const std::string cell{written[column.name]};
    if (is_open_cell(cell) || (named && column.name == "notes")) continue;
    bool first = true;
    for (const Phrase& phrase : phrases_of(cell)) {
      const bool is_tried = !first || column.first;
      first = false;
      if (!is_tried) continue;
      RunCells without = written;
      without.text.find(column.name)->second.erase(phrase.begin, phrase.length);
      if (meaning_of(std::move(without), rules) == meaning)
        silent.push_back(
            fmt::format("{}: {}", column.name, cell.substr(phrase.begin, phrase.length)));
    }
  }
  return silent;
}

}  // namespace sim
