// Published measurements: sets of rows, each a scenario and what was measured of it.
//
// A set is a folder of validation/published with one scenario file per row and `measured.yaml`,
// which says for the set where it comes from and what was assumed, and for each row its scenario,
// its use and the measured time. validation/README.md has the format with an example.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/base/words.hpp"

namespace sim {

// A row to fit on is shown and never scored; a row to score is never looked at by a fit.
enum class RowUse : std::uint8_t { score, fit };
constexpr auto words_of(RowUse) {
  return std::array{Word{RowUse::score, "score"}, Word{RowUse::fit, "fit"}};
}

// What was timed: a whole step, or one layer, forward and backward (with what it recomputes).
enum class Quantity : std::uint8_t { step, layer };
constexpr auto words_of(Quantity) {
  return std::array{Word{Quantity::step, "step"}, Word{Quantity::layer, "layer"}};
}

// How the measured run ended.
enum class Outcome : std::uint8_t { ran, out_of_memory };
constexpr auto words_of(Outcome) {
  return std::array{Word{Outcome::ran, "ran"}, Word{Outcome::out_of_memory, "out_of_memory"}};
}

struct MeasuredRow {
  std::string id;
  std::string scenario;  // path, relative to where the program runs
  RowUse use = RowUse::score;
  Outcome outcome = Outcome::ran;
  Duration measured{};   // of a run that ran
  std::string evidence;  // the figure as printed, where `measured` was derived from it
  std::vector<std::string> assumptions;
};

struct MeasuredSet {
  std::string name;
  std::string title;
  std::string source;
  Quantity quantity = Quantity::step;
  int layer = 0;  // which one, of Quantity::layer
  std::vector<std::string> assumptions;
  std::vector<MeasuredRow> rows;
};

// Reads a measured.yaml. Throws InputError.
MeasuredSet load_measured_set(const std::string& path);

// The errors that a set may have; beyond them validation fails.
struct Bound {
  std::string set;
  int scored = 0;  // rows that must have been scored, at least
  double median_abs_error = 0;
  double worst_abs_error = 0;
};
std::vector<Bound> load_bounds(const std::string& path);

// The sets below `folder` (validation/published), by name. Throws InputError if it holds none.
std::vector<std::string> measured_sets(const std::string& folder);

}  // namespace sim
