#include "sim/economics/run_model.hpp"

#include <cmath>

#include "tests/catch.hpp"

using sim::never;
using sim::RunModel;
using sim::Seconds;

namespace {

constexpr Seconds hour{3600};

// 100 h of work with a checkpoint of 3 min every hour.
RunModel hundred_hours() {
  RunModel run;
  run.work = 100 * hour;
  run.segments = 100;
  run.stall = Seconds{180};
  return run;
}

}  // namespace

TEST_CASE("without failures only checkpoints cost time", "[economics]") {
  const RunModel run = hundred_hours();
  // Goodput is 1 less the share of checkpoints: 60 / 63.
  CHECK_THAT(run.work / sim::expected_wall_time(run), WithinRel(1 - 3.0 / 63, 1e-12));
}

TEST_CASE("rare failures cost a restart and half a segment each", "[economics]") {
  RunModel run = hundred_hours();
  run.failures = {.every = 100'000 * hour, .restart = Seconds{600}};
  // First order in 1/M: L (1 + (R + L/2) / M), with L = 63 min.
  const double segment = 63 * 60;
  const double expected = 100 * segment * (1 + (600 + segment / 2) / (1e5 * 3600));
  CHECK_THAT(sim::expected_wall_time(run).count(), WithinRel(expected, 1e-9));
}

TEST_CASE("the wall time is Daly's for blocking checkpoints", "[economics]") {
  RunModel run = hundred_hours();
  run.failures = {.every = 5 * hour, .restart = Seconds{600}};
  const double m = 5 * 3600;
  // Daly 2006, equation 20: M exp(R/M) (exp((tau + delta)/M) - 1) Ts / tau.
  const double daly = m * std::exp(600 / m) * (std::exp((3600 + 180) / m) - 1) * 100;
  CHECK_THAT(sim::expected_wall_time(run).count(), WithinRel(daly, 1e-12));
}

TEST_CASE("two kinds of stops with one restart are one kind of the summed rate", "[economics]") {
  RunModel both = hundred_hours();
  both.failures = {.every = 10 * hour, .restart = Seconds{600}};
  both.preemptions = {.every = 10 * hour, .restart = Seconds{600}};
  RunModel one = hundred_hours();
  one.failures = {.every = 5 * hour, .restart = Seconds{600}};
  CHECK_THAT(sim::expected_wall_time(both).count(),
             WithinRel(sim::expected_wall_time(one).count(), 1e-12));
}

TEST_CASE("Young's interval is the square root, Daly's is beside the true minimum", "[economics]") {
  const Seconds stall{300};
  const Seconds mtbf = 24 * hour;
  CHECK_THAT(sim::young_interval(stall, mtbf).count(),
             WithinRel(std::sqrt(2 * 300 * 86400.0), 1e-12));
  // Daly 2006, figure 3: M = 24 h, delta = 5 min: 117 min.
  CHECK_THAT(sim::daly_interval(stall, mtbf).count() / 60, WithinAbs(117, 0.5));
  // Figure 4: M = 6 h: 57 min; figure 5: M = 15 min: 9.1 min.
  CHECK_THAT(sim::daly_interval(stall, 6 * hour).count() / 60, WithinAbs(57, 0.5));
  CHECK_THAT(sim::daly_interval(stall, hour / 4).count() / 60, WithinAbs(9.1, 0.05));
  CHECK(sim::daly_interval(stall, Seconds{100}) == Seconds{100});  // stall > 2 M
  CHECK(sim::daly_interval(stall, never) == never);
}

TEST_CASE("Daly's interval costs least in closed form", "[economics]") {
  const double hours = GENERATE(0.5, 3.0, 24.0, 500.0);
  CAPTURE(hours);
  const auto wall = [&](Seconds interval) {
    RunModel run;
    run.segments = 1000;
    run.work = interval * 1000;
    run.stall = Seconds{60};
    run.failures = {.every = hours * hour, .restart = Seconds{300}};
    return sim::expected_wall_time(run) / run.work;
  };
  const Seconds best = sim::daly_interval(Seconds{60}, hours * hour);
  CHECK(wall(best) < wall(best * 0.8));
  CHECK(wall(best) < wall(best * 1.25));
}

TEST_CASE("a run that stops before any work is done never ends", "[economics]") {
  RunModel run = hundred_hours();
  run.failures = {.every = Seconds{1}, .restart = 1e4 * hour};
  CHECK(std::isinf(sim::expected_wall_time(run).count()));
}

TEST_CASE("the wall time falls with the time between failures", "[economics]") {
  double before = INFINITY;
  for (const double hours : {1.0, 2.0, 5.0, 20.0, 1000.0}) {
    RunModel run = hundred_hours();
    run.lag = Seconds{120};
    run.failures = {.every = hours * hour, .restart = Seconds{600}};
    const double wall = sim::expected_wall_time(run).count();
    CHECK(wall < before);
    before = wall;
  }
}
