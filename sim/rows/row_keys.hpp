// Keys of a scenario that a table of runs, or the `base` of a set, gives beside its cells.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/reader.hpp"
#include "sim/rows/measured.hpp"

namespace sim {

using RowKeys = std::map<std::string, std::string, std::less<>>;  // "framework.loss": "fused"

// The key that a column stands for: "framework" and "framework_version", or the key itself where
// its name has a dot. Empty: the column is none of those.
std::string key_of_column(std::string_view column);
// problem_of_key() says what is wrong with such a key; empty: a scenario has it, and a table may
// give it.
std::string problem_of_key(std::string_view key);

// `base` of measured.yaml: sections as a scenario has them. Unknown keys are problems.
RowKeys read_base(const ObjectReader& base);

// The column of the known header that gives the same as a key: "tp" of layout.tensor_parallel.
// Empty: none does.
std::string_view own_column(std::string_view key);

// Puts a key on top of the cells, or into its own column.
void put_key(const std::string& key, const std::string& value, RunCells& cells);

// The keys of a section as "section.key=value".
std::vector<std::string> assignments_of(const RunCells& cells, std::string_view section);
// The same for sections other than framework and layout.
std::vector<std::string> other_assignments(const RunCells& cells);

}  // namespace sim
