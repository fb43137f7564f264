// Tables of measured training runs: one row per run, the columns of `run_columns` by name and in
// any order. What the columns mean: validation/ROWS.md.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/rows/csv.hpp"
#include "sim/rows/measured.hpp"
#include "sim/rows/row_keys.hpp"
#include "sim/rows/words.hpp"

namespace sim {

// gigabytes: a number, behind which a unit may stand.
enum class CellKind : std::uint8_t { text, whole, real, gigabytes };
struct RunColumn {
  std::string_view name;
  CellKind kind = CellKind::text;
  bool required = false;  // the table must have it; cells may be empty
};
std::span<const RunColumn> run_columns();

// A row that cannot be read: `list` keeps it, with the reason in place of its cells.
enum class BadRows : std::uint8_t { refuse, list };

// Whether a table may have that column; columns that are keys of a scenario not counted.
bool is_run_column(std::string_view name);
// Empty, or "not stated" and the like.
bool is_open_cell(std::string_view text);

// RowContext is what a set says for all of its rows: keys of a scenario, or the rules that read
// words where a row names no framework.
struct RowContext {
  RowKeys base{};
  std::vector<WordRule> words{};
  bool drops_framework = false;  // keys of it are not read: as if the row did not name it
};

// Every row of the table, with its cells as they stand but for empty ones that have a default
// (fill_empty_cells). A column may be a key of a scenario, which goes on top of the cells, and
// those on top of `context.base`. `use` score, fit or empty, `status` empty, "ok", "OOM" or
// beginning with "analytic" (computed by its authors: memory only). Whether a row can be simulated
// is not decided here. Throws InputError with every unknown or missing column and, unless they are
// listed, every number that is none and every row_id that is missing or not the first of its name.
std::vector<MeasuredRow> read_runs(const CsvTable& table, BadRows bad = BadRows::refuse,
                                   const RowContext& context = {});

// Puts into empty cells what the framework of the row does where a job says nothing. Returns what
// and why, a line each. Rows that were computed, not run, stay as they are.
std::vector<std::string> fill_empty_cells(RunCells& cells);

}  // namespace sim
