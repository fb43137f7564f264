// The meaning of words in the cells of a table that names no framework: the rules of
// validation/words.yaml, and the matcher that applies them.
#pragma once

#include <string>
#include <vector>

#include "sim/rows/measured.hpp"

namespace sim {

// Columns, separated by spaces, or a key that is set already; and what one of them must say.
struct WordCondition {
  std::vector<std::string> columns;
  // In lower case, alternatives between " | ". "fused": the cell has it; "^llama": it begins so;
  // "=fused": it is that; "transformer engine >= 2.3": a version of at least that stands behind the
  // words; "!x": x does not hold of any of the columns.
  std::string pattern;
};

struct WordRule {
  std::vector<WordCondition> when;  // all of them
  // Keys of a scenario, or columns, which take the value only if the cell is open.
  std::vector<std::pair<std::string, std::string>> set;
};

// Throws InputError.
std::vector<WordRule> load_words(const std::string& path);

// Applies the rules in order to a row that has no framework. What is set already stays. Returns
// what was set and which cell says so, a line each.
std::vector<std::string> read_words(const std::vector<WordRule>& rules, RunCells& cells);

}  // namespace sim
