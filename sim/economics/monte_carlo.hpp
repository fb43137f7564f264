// The run played through many times, from stop to stop.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/economics/run_model.hpp"

namespace sim {

// Played is where the wall time of one played run went. Work, the checkpoints that counted and the
// last lag are the same in every run; the rest is here.
struct Played {
  Seconds wall{};
  Seconds lost{};    // work and checkpoints that had to be done again
  Seconds down{};    // from stops until work went on
  Seconds waited{};  // of `down`: for a node
  Seconds slow{};    // what slow spells and missing nodes cost the work that counted
  std::int64_t failures = 0, preemptions = 0, corruptions = 0;
};

// `runs` independent runs, in order. Run i depends on `seed` and i alone, so the number of threads
// (0: one per core) changes nothing. Takes time in proportion to the stops, not to the steps.
// REQUIRES: expected_wall_time(run) is finite.
std::vector<Played> play(const RunModel& run, int runs, std::uint64_t seed, unsigned threads = 0);

// About how many events play() will go through.
double expected_events(const RunModel& run, int runs);

// Mean, its standard error, and quantiles (linear between order statistics) of the wall times.
struct Distribution {
  Seconds mean{}, standard_error{};
  std::vector<Seconds> sorted;
  Seconds quantile(double probability) const;
  double probability_within(Seconds limit) const;  // share of the runs that took no longer
};
Distribution wall_times(const std::vector<Played>& played);

}  // namespace sim
