#include "sim/economics/run_model.hpp"

#include <array>
#include <cmath>

namespace sim {
namespace {

// One kind of stop: how often, the restart from either tier, and whether the memory survives it.
struct Kind {
  double rate = 0, from_storage = 0, from_memory = 0;
  bool keeps_memory = false;
};

std::array<Kind, 3> kinds_of(const RunModel& run) {
  const double failures = 1 / run.failures.every.count();
  const double saved = run.memory.saved.count();
  const auto kind = [&](double rate, Seconds restart, bool keeps) {
    const double whole = restart.count();
    return Kind{rate, whole, std::max(0.0, whole - saved), keeps};
  };
  return {
      kind(failures * (1 - run.software), run.failures.restart, run.memory.survives_node),
      kind(failures * run.software, run.software_restart, run.memory.survives_software),
      kind(1 / run.preemptions.every.count(), run.preemptions.restart, run.memory.survives_node)};
}

// Recovery is the way from a moment of work over the next stop back to work.
struct Recovery {
  double cycle = 0;       // mean time of all of it
  double to_storage = 0;  // chance that it goes back to the storage
};

// FORMULAS.md, "Two tiers of checkpoints".
Recovery recovery_of(const RunModel& run, double stops) {
  const std::array<Kind, 3> kinds = kinds_of(run);
  double up_from_storage = 0;
  for (const Kind& kind : kinds)
    up_from_storage += kind.rate / stops * std::exp(-stops * kind.from_storage);
  const double down_lost = (1 - up_from_storage) / (stops * up_from_storage);
  // A stop while the memory is good: mean time until work, without what comes after another stop
  // that also finds it good; the chance of that; and the chance to be back with it.
  struct Spell {
    double time = 0, again = 0, kept = 0;
  };
  const auto spell = [&](double partner) {
    Spell sum;
    for (const Kind& kind : kinds) {
      // The copy of a node may be gone; that of the software's own node never is.
      const bool of_node = &kind != &kinds[1];
      const double keeps = !kind.keeps_memory ? 0 : of_node ? 1 - partner : 1;
      const double share = kind.rate / stops;
      const double up = std::exp(-stops * kind.from_memory);
      const double up_lost = std::exp(-stops * kind.from_storage);
      sum.time += share * (keeps * (1 - up) / stops +
                           (1 - keeps) * (1 - up_lost) * (1 / stops + down_lost));
      sum.again += share * keeps * (1 - up);
      sum.kept += share * keeps * up;
    }
    return sum;
  };
  const Spell first = spell(0), further = spell(run.memory.second_is_partner);
  const double further_time = further.time / (1 - further.again);
  const double further_kept = further.kept / (1 - further.again);
  return {.cycle = 1 / stops + first.time + first.again * further_time,
          .to_storage = 1 - first.kept - first.again * further_kept};
}

// Time of one segment between checkpoints in the storage, of `parts` with `length` each.
double segment_time(const RunModel& run, const Recovery& recovery, double stops, double length) {
  const double q = recovery.to_storage;
  const double one =
      std::expm1(stops * length) * (1 + (1 - q) * std::expm1(stops * run.memory.lag.count()));
  const auto parts = static_cast<double>(run.memory.per_segment);
  // ((1 + q one)^parts - 1) / q, which is parts x one where q is 0.
  const double odds = q * one < 1e-12 ? parts * one : std::expm1(parts * std::log1p(q * one)) / q;
  return recovery.cycle * odds * (1 + q * std::expm1(stops * run.lag.count()));
}

// All segments with the checks that follow them: those that find something are done again.
double checked_time(const RunModel& run, double all_segments, double restart) {
  const SilentCorruption& corruption = run.corruption;
  const double checks =
      static_cast<double>(run.segments) / static_cast<double>(corruption.segments_per_check);
  const double work = run.segment().count() * static_cast<double>(corruption.segments_per_check);
  const double again = std::expm1(work / corruption.every.count());  // times, of each check
  return all_segments * (1 + again) + checks * again * restart;
}

}  // namespace

Seconds RunModel::part_stall() const {
  if (corruption.every == never) return stall;
  return stall +
         corruption.check / static_cast<double>(corruption.segments_per_check * memory.per_segment);
}

Seconds time_between_stops(const RunModel& run) {
  return Seconds{1 / (1 / run.failures.every.count() + 1 / run.preemptions.every.count())};
}

Seconds time_between_losses(const RunModel& run) {
  return Seconds{
      1 / ((1 - run.software) / run.failures.every.count() + 1 / run.preemptions.every.count())};
}

Seconds time_between_storage_restores(const RunModel& run) {
  const Seconds stops = time_between_stops(run);
  if (stops == never) return never;
  return stops / recovery_of(run, 1 / stops.count()).to_storage;
}

// Slow nodes come as a Poisson process and stay for a fixed time, so their number is that of an
// M/G/infinity queue: none with probability exp(-lasts / every).
double mean_speed(const RunModel& run) {
  const double none = std::exp(-(run.slow.lasts / run.slow.every));
  return (none + (1 - none) / run.slow.factor) / (1 + run.flap_stalls);
}

Seconds expected_wall_time(const RunModel& run) {
  const PoolShares pool = pool_shares(run.pool, time_between_losses(run));
  const double length =
      run.part().count() / (mean_speed(run) * pool.speed) + run.part_stall().count();
  const double lag = run.lag.count();
  const auto segments = static_cast<double>(run.segments);
  const double stops = 1 / time_between_stops(run).count();
  const double again = run.corruption.restart.count();
  if (stops == 0)
    return Seconds{checked_time(run, static_cast<double>(run.parts()) * length, again) + lag};
  const Recovery recovery = recovery_of(run, stops);
  const double all = segments * segment_time(run, recovery, stops, length);
  const double restart = recovery.cycle * -std::expm1(-stops * again);
  const double end = recovery.cycle * std::expm1(stops * lag);
  const double halts = (1 + pool.resizes * run.pool.resize.count()) / (1 - pool.waiting);
  const double wall = (checked_time(run, all, restart) + end) * halts;
  return std::isnan(wall) ? never : Seconds{wall};
}

Seconds young_interval(Seconds stall, Seconds mtbf) {
  if (mtbf == never) return never;
  return Seconds{std::sqrt(2 * stall.count() * mtbf.count())};
}

Seconds daly_interval(Seconds stall, Seconds mtbf) {
  if (mtbf == never) return never;
  const double ratio = stall / (2 * mtbf);
  if (ratio >= 1) return mtbf;
  return young_interval(stall, mtbf) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - stall;
}

}  // namespace sim
