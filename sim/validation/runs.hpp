// Tables of measured training runs: one row per run, the columns of `run_columns` by name and in
// any order. What the columns mean: validation/README.md.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "sim/validation/csv.hpp"
#include "sim/validation/measured.hpp"

namespace sim {

enum class CellKind : std::uint8_t { text, whole, real };
struct RunColumn {
  std::string_view name;
  CellKind kind = CellKind::text;
  bool required = false;  // the table must have it; cells may be empty
};
std::span<const RunColumn> run_columns();

// Every row of the table, with its cells as they stand: `use` score or fit, `status` empty, "ok",
// "OOM" or beginning with "analytic" (computed by its authors: memory only). Whether a row can be
// simulated is not decided here. Throws InputError with every unknown or missing column, number
// that is none, row_id that is missing or not the first of its name.
std::vector<MeasuredRow> read_runs(const CsvTable& table);

}  // namespace sim
