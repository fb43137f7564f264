// Published measurements: sets of rows, each a scenario and what was measured of it.
//
// A set is a folder of validation/published with `measured.yaml`, which says for the set where it
// comes from and what was assumed, and either lists its rows, each with a scenario file, its use
// and the measured time, or names a table of runs (runs.hpp) whose rows become scenarios in memory.
// validation/published/README.md and validation/ROWS.md have the formats.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/base/words.hpp"

namespace sim {

// A row to fit on is shown and never scored; a row to score is never looked at by a fit.
enum class RowUse : std::uint8_t { score, fit };
constexpr auto words_of(RowUse) {
  return std::array{Word{RowUse::score, "score"}, Word{RowUse::fit, "fit"}};
}

// Quantity is what was timed: a whole step, or one layer, forward and backward (with what it
// recomputes).
enum class Quantity : std::uint8_t { step, layer };
constexpr auto words_of(Quantity) {
  return std::array{Word{Quantity::step, "step"}, Word{Quantity::layer, "layer"}};
}

// How the measured run ended. analytic: it was computed by its authors, not run, so that it has a
// memory and no time.
enum class Outcome : std::uint8_t { ran, out_of_memory, analytic };
constexpr auto words_of(Outcome) {
  return std::array{Word{Outcome::ran, "ran"}, Word{Outcome::out_of_memory, "out_of_memory"},
                    Word{Outcome::analytic, "analytic"}};
}

// A row of a table of runs as it stands in the file.
struct RunCells {
  std::string file;
  int line = 0;
  std::map<std::string, std::string, std::less<>> text;        // by column
  std::map<std::string, std::string, std::less<>> keys{};      // of a scenario: "framework.loss"
  bool is_read_from_words = false;                             // `keys` are (words.hpp)
  bool names_framework = true;                                 // else no cell says which it is
  std::string_view operator[](std::string_view column) const;  // empty if there is none
  std::optional<std::int64_t> whole(std::string_view column) const;
  std::optional<double> real(std::string_view column) const;
};

struct MeasuredRow {
  std::string id;
  std::string scenario;           // path, relative to where the program runs; or:
  std::optional<RunCells> cells;  // a row of a table
  RowUse use = RowUse::score;
  Outcome outcome = Outcome::ran;
  Duration measured{};          // of a run that ran; 0: no time is known
  std::optional<Bytes> memory;  // of the worst rank, without what the device reserves
  // Activations of the worst rank, as a share of those with tensor parallelism alone: without
  // sequence parallelism and recomputation.
  std::optional<double> activation_share;
  std::string evidence;  // the figure as printed, where `measured` was derived from it
  std::vector<std::string> assumptions;
  std::vector<std::string> defaults;  // what stands for cells that are empty, and whose default
  std::vector<std::string> inferred;  // what words of cells set, and which cell says so
  std::vector<std::string> silent;    // words of cells that set nothing (silent_words.hpp)
  std::string unreadable;             // line, column and reason; empty: the row was read
  bool has_time() const { return outcome == Outcome::ran && measured > Duration{}; }
  bool has_memory() const { return memory || activation_share; }
};

struct MeasuredSet {
  std::string name;
  std::string title;
  std::string source;
  Quantity quantity = Quantity::step;
  int layer = 0;  // which one, of Quantity::layer
  // Whether the errors of its rows count in the intervals and margins of other forecasts.
  bool in_intervals = true;
  std::vector<std::string> assumptions;
  std::string data_folder;  // of rows of a table: holds topologies/ and validation/
  std::vector<MeasuredRow> rows;
};

// Reads a measured.yaml. Throws InputError.
MeasuredSet load_measured_set(const std::string& path);
// Anybody's table of runs as a set, named after the file. Throws InputError.
MeasuredSet load_table_set(const std::string& path, const std::string& data_folder);
// The same as if it named no framework.
MeasuredSet load_unnamed_table(const std::string& path, const std::string& data_folder);

// The errors that a set may have; beyond them validation fails.
struct ErrorBound {
  std::string set;
  int scored = 0;  // rows whose time must have been scored, at least
  double median_abs_error = 0;
  double worst_abs_error = 0;
  int memory_scored = 0;  // rows whose memory must have been scored, at least
  double median_memory_error = 0;
  double worst_memory_error = 0;
  int fits_right = 0;  // rows of which the forecast must say rightly whether they fit, at least
  // layout_groups: groups of layouts (favourites.hpp), at least. best_in_favourites: groups whose
  // fastest layout is among our first, at least.
  int layout_groups = 0, best_in_favourites = 0;
};
std::vector<ErrorBound> load_bounds(const std::string& path);

// IntervalBounds is what the intervals must hold, and what anchors must bring (anchored.hpp).
struct IntervalBounds {
  double covered = 0, covered_of_set = 0;  // shares of rows within, at least: of all, of each set
  // The same share of all rows whose framework is not named: at least and at most.
  double unnamed_least = 0, unnamed_most = 1;
  double anchored_error = 1;   // median error of anchored runs over that without
  double anchored_within = 0;  // share of anchored runs within, at least
};
IntervalBounds load_interval_bounds(const std::string& path);

// The sets below `folder` (validation/published), by name. Throws InputError if it holds none.
std::vector<std::string> measured_sets(const std::string& folder);

}  // namespace sim
