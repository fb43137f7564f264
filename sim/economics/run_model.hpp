// A training run as a sequence of work, checkpoints and stops, and what follows from it in closed
// form. FORMULAS.md derives the formulas.
//
// The run is `segments` times: work, then a checkpoint. A checkpoint halts the training for `stall`
// and can be restored from `lag` after that (0: a blocking write; else it is written while training
// goes on). A stop throws the run back to the last checkpoint that can be restored from; work goes
// on a `restart` later, unless the next stop comes first. The run ends when its last checkpoint can
// be restored from. Checkpoints in the memory of the hosts, a pool of spare nodes and checks for
// silent corruption may be added.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>

#include "sim/economics/node_pool.hpp"

namespace sim {

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

// Checkpoints in the memory of the hosts, evenly between those that are written to the storage,
// which are written from the memory. A stop that the memory survives throws the run back to the
// last of them.
struct MemoryTier {
  std::int64_t per_segment = 1;  // those of one segment, with that which goes to the storage
  Seconds lag{};                 // until one can be restored from. REQUIRES: not longer than a part
  Seconds saved{};               // what a restart is shorter than one from the storage
  bool survives_software = false;
  bool survives_node = false;  // the loss of one
  // Chance that the next node that is lost before the run is back held the only other copy.
  double second_is_partner = 0;
};

// Corruption that no part reports. A check after every `segments_per_check` segments finds it, and
// throws the run back to the last one that was checked.
struct SilentCorruption {
  Seconds every = never;  // of work
  std::int64_t segments_per_check = 1;
  double share = 0;   // of the time of a step that goes to checks within it
  Seconds check{};    // that one between steps takes
  Seconds restart{};  // after one that found something
};

struct RunModel {
  Seconds work{};  // of the whole run, if nothing ever went wrong: steps x step time
  std::int64_t segments = 1;
  Seconds stall{};  // of each checkpoint, wherever it goes
  Seconds lag{};    // REQUIRES: not longer than a segment, if there are several
  Stops failures{};
  double weibull_shape = 1;  // of the time between failures; 1: exponential
  double software = 0;       // share of the failures that take no node away
  Seconds software_restart{};
  Stops preemptions{};  // exponential
  SlowSpells slow{};
  double flap_stalls = 0;  // time that a link is down and the job waits, over that of the work
  MemoryTier memory{};
  SilentCorruption corruption{};
  NodePool pool{};  // that failures of nodes and preemptions take from

  Seconds segment() const { return work / static_cast<double>(segments); }
  // Checkpoints of both tiers, and the work and the halts between two.
  std::int64_t parts() const { return segments * memory.per_segment; }
  Seconds part() const { return work / static_cast<double>(parts()); }
  Seconds part_stall() const;
};

// Mean time between two stops of either kind.
Seconds time_between_stops(const RunModel& run);

// Mean time between two stops that take a node away.
Seconds time_between_losses(const RunModel& run);

// Mean time between two stops after which the run goes back to the storage.
Seconds time_between_storage_restores(const RunModel& run);

// Mean speed of the work under slow spells and link flaps: 1 without them.
double mean_speed(const RunModel& run);

// The expected wall time for exponential stops: Daly 2006, equation 20, extended to two kinds of
// stops, to checkpoints that become usable late, to two tiers of checkpoints and to silent
// corruption. Infinite where it leaves the range of doubles. Exact but for slow spells and a pool
// of nodes, which enter with their mean, and for the lags of two tiers, which enter in first order.
Seconds expected_wall_time(const RunModel& run);

// Work between two checkpoints that costs least: Young 1974, sqrt(2 stall mtbf); Daly 2006,
// equation 37, of higher order. `never` without failures.
Seconds young_interval(Seconds stall, Seconds mtbf);
Seconds daly_interval(Seconds stall, Seconds mtbf);

}  // namespace sim
