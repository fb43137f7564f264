#include "sim/economics/run_model.hpp"

#include <cmath>

namespace sim {

Seconds time_between_stops(const RunModel& run) {
  return Seconds{1 / (1 / run.failures.every.count() + 1 / run.preemptions.every.count())};
}

// Slow nodes come as a Poisson process and stay for a fixed time, so their number is that of an
// M/G/infinity queue: none with probability exp(-lasts / every).
double mean_speed(const RunModel& run) {
  const double none = std::exp(-(run.slow.lasts / run.slow.every));
  return none + (1 - none) / run.slow.factor;
}

Seconds expected_wall_time(const RunModel& run) {
  const double segment = run.segment().count() / mean_speed(run) + run.stall.count();
  const double lag = run.lag.count();
  const auto segments = static_cast<double>(run.segments);
  const double failures = 1 / run.failures.every.count();  // rates
  const double preemptions = 1 / run.preemptions.every.count();
  const double stops = failures + preemptions;
  if (stops == 0) return Seconds{segments * segment + lag};
  // Mean time from a stop to the next moment of work, and from there to the next stop. With one
  // kind of stop: M exp(R / M).
  const double undisturbed = failures * std::exp(-stops * run.failures.restart.count()) +
                             preemptions * std::exp(-stops * run.preemptions.restart.count());
  const double cycle = 1 / undisturbed;
  return Seconds{cycle * (segments * std::expm1(stops * segment) * std::exp(stops * lag) +
                          std::expm1(stops * lag))};
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
