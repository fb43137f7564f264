// Free text of tables of runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "sim/base/lower_case.hpp"
#include "sim/rows/measured.hpp"

namespace sim {

bool contains(std::string_view text, std::string_view part);  // as written
// is_torch_fsdp() holds of a shard_strategy that says FSDP, but for Megatron-LM's own.
bool is_torch_fsdp(std::string_view shard_strategy);
// The whole number right behind `words`, 1 to 1,000,000: "groups of 8".
std::optional<int> number_behind(std::string_view text, std::string_view words);

// "2.11" right behind `words`, as {2, 11}; without words at the beginning.
std::optional<std::pair<int, int>> version_behind(std::string_view text, std::string_view words);

// A whole number of at least 1. Throws NotSimulated where the cell is empty or 0; the second form
// has a value for an empty cell.
std::int64_t needed(const RunCells& cells, std::string_view column);
std::int64_t needed(const RunCells& cells, std::string_view column, std::int64_t if_empty);
// True, False (any case) or empty. Throws NotSimulated otherwise.
std::optional<bool> truth(const RunCells& cells, std::string_view column);

}  // namespace sim
