// A training run as a sequence of work, checkpoints and stops, and what follows from it in closed
// form. FORMULAS.md derives the formulas.
//
// The run is `segments` times: work, then a checkpoint. A checkpoint halts the training for `stall`
// and can be restored from `lag` after that (0: a blocking write; else it is written while training
// goes on). A stop throws the run back to the last checkpoint that can be restored from; work goes
// on a `restart` later, unless the next stop comes first. The run ends when its last checkpoint can
// be restored from.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>

namespace sim {

// Longer than Duration's 106 days, and no finer than a double.
using Seconds = std::chrono::duration<double>;
inline constexpr Seconds never{std::numeric_limits<double>::infinity()};

struct Stops {
  Seconds every = never;  // mean time between two
  Seconds restart{};
};

// A node that slows the whole job down until it is found. The spells of two may overlap: then the
// job is no slower.
struct SlowSpells {
  Seconds every = never;
  Seconds lasts{};
  double factor = 1;  // that the work takes meanwhile
};

struct RunModel {
  Seconds work{};  // of the whole run, if nothing ever went wrong: steps x step time
  std::int64_t segments = 1;
  Seconds stall{};
  Seconds lag{};  // REQUIRES: not longer than a segment, if there are several
  Stops failures{};
  double weibull_shape = 1;  // of the time between failures; 1: exponential
  Stops preemptions{};       // exponential
  SlowSpells slow{};

  Seconds segment() const { return work / static_cast<double>(segments); }
};

// Mean time between two stops of either kind.
Seconds time_between_stops(const RunModel& run);

// Mean speed of the work under slow spells: 1 without them.
double mean_speed(const RunModel& run);

// The expected wall time for exponential stops: Daly 2006, equation 20, extended to two kinds of
// stops and to checkpoints that become usable late. Infinite where it leaves the range of doubles.
// Exact but for slow spells, which enter with their mean.
Seconds expected_wall_time(const RunModel& run);

// Work between two checkpoints that costs least: Young 1974, sqrt(2 stall mtbf); Daly 2006,
// equation 37, of higher order. `never` without failures.
Seconds young_interval(Seconds stall, Seconds mtbf);
Seconds daly_interval(Seconds stall, Seconds mtbf);

}  // namespace sim
