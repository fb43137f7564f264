#include "sim/economics/monte_carlo.hpp"

#include <cmath>

#include "tests/catch.hpp"

using sim::Distribution;
using sim::RunModel;
using sim::Seconds;

namespace {

constexpr Seconds hour{3600};

RunModel ten_days() {
  RunModel run;
  run.work = 240 * hour;
  run.segments = 480;
  run.stall = Seconds{60};
  run.failures = {.every = 4 * hour, .restart = Seconds{600}};
  return run;
}

// Four standard errors: wrong once in 16,000 times, and the seeds are fixed.
void check_agrees(const RunModel& run) {
  const Distribution wall = sim::wall_times(sim::play(run, 4000, 7));
  const Seconds expected = sim::expected_wall_time(run);
  CAPTURE(wall.mean.count(), expected.count(), wall.standard_error.count());
  CHECK(wall.standard_error / wall.mean < 0.02);
  CHECK(std::abs((wall.mean - expected) / wall.standard_error) < 4);
}

}  // namespace

TEST_CASE("played runs have the expected wall time", "[economics]") {
  RunModel run = ten_days();
  SECTION("blocking checkpoints") {}
  SECTION("failures in most segments") {
    run.failures.every = hour / 2;
  }
  SECTION("failures during restarts") {
    run.failures.restart = 3 * hour;
  }
  SECTION("rare failures") {
    run.failures.every = 400 * hour;
  }
  SECTION("long checkpoints") {
    run.stall = hour / 2;
  }
  SECTION("checkpoints usable late") {
    run.lag = hour / 4;
  }
  SECTION("checkpoints usable just before the next, failures in most segments") {
    run.lag = hour / 2;
    run.failures.every = hour;
  }
  SECTION("one segment") {
    run.segments = 1;
    run.lag = hour;
    run.failures.every = 100 * hour;
  }
  SECTION("preemptions with a restart of their own") {
    run.lag = hour / 4;
    run.preemptions = {.every = 3 * hour, .restart = 2 * hour};
  }
  check_agrees(run);
}

TEST_CASE("played runs without failures take work, checkpoints and the last lag", "[economics]") {
  RunModel run = ten_days();
  run.failures = {};
  run.lag = Seconds{90};
  for (const sim::Played& one : sim::play(run, 3, 1)) {
    CHECK_THAT(one.wall.count(), WithinRel(240 * 3600.0 + 480 * 60 + 90, 1e-12));
    CHECK(one.failures == 0);
  }
}

TEST_CASE("the time of a played run is accounted for", "[economics]") {
  RunModel run = ten_days();
  run.lag = Seconds{300};
  run.preemptions = {.every = 20 * hour, .restart = hour};
  for (const sim::Played& one : sim::play(run, 200, 3)) {
    const Seconds planned = run.work + run.stall * 480 + run.lag;
    CHECK_THAT((planned + one.lost + one.down).count(), WithinRel(one.wall.count(), 1e-9));
    CHECK(one.lost >= Seconds{0});
  }
}

TEST_CASE("neither threads nor the number of runs change a run", "[economics]") {
  RunModel run = ten_days();
  run.weibull_shape = 0.7;
  run.lag = Seconds{200};
  run.slow = {.every = 10 * hour, .lasts = hour, .factor = 1.3};
  const std::vector<sim::Played> one = sim::play(run, 301, 5, 1);
  const std::vector<sim::Played> four = sim::play(run, 301, 5, 4);
  const std::vector<sim::Played> fewer = sim::play(run, 17, 5, 3);
  for (std::size_t i = 0; i < one.size(); ++i) {
    CHECK(one[i].wall == four[i].wall);
    CHECK(one[i].lost == four[i].lost);
    if (i < fewer.size()) CHECK(one[i].wall == fewer[i].wall);
  }
  CHECK(sim::play(run, 1, 6, 1)[0].wall != one[0].wall);
}

TEST_CASE("no interval beats Daly's in played runs", "[economics]") {
  RunModel run = ten_days();
  const Seconds best = sim::daly_interval(run.stall, run.failures.every);
  const auto mean = [&](double factor) {
    run.segments = static_cast<std::int64_t>(run.work / (best * factor));
    return sim::wall_times(sim::play(run, 4000, 11)).mean;
  };
  const Seconds least = mean(1);
  CHECK(least < mean(0.5));
  CHECK(least < mean(2));
}

TEST_CASE("Weibull failures come as often as exponential ones, in bursts", "[economics]") {
  RunModel run = ten_days();
  run.work = 1000 * hour;
  run.segments = 10'000;
  run.stall = Seconds{0};
  run.failures.restart = Seconds{0};
  const auto failures_per_hour = [&](double shape) {
    run.weibull_shape = shape;
    double count = 0, hours = 0;
    for (const sim::Played& one : sim::play(run, 400, 9)) {
      count += static_cast<double>(one.failures);
      hours += one.wall / hour;
    }
    return count / hours;
  };
  CHECK_THAT(failures_per_hour(1), WithinRel(0.25, 0.01));
  // A renewal process that starts anew: mean count t / M + (c^2 - 1) / 2 with c^2 the squared
  // coefficient of variation, 2.14 for shape 0.7. Some 260 failures a run: half of one more.
  CHECK_THAT(failures_per_hour(0.7), WithinRel(0.25, 0.015));
}

TEST_CASE("slow nodes cost the share of time that one is there", "[economics]") {
  RunModel run = ten_days();
  run.failures = {};
  run.stall = Seconds{0};
  run.slow = {.every = 10 * hour, .lasts = 2 * hour, .factor = 1.5};
  // Slow for 1 - exp(-0.2) of the time.
  const double speed = std::exp(-0.2) + (1 - std::exp(-0.2)) / 1.5;
  CHECK_THAT(sim::mean_speed(run), WithinRel(speed, 1e-12));
  const Distribution wall = sim::wall_times(sim::play(run, 4000, 2));
  CHECK_THAT(wall.mean / run.work, WithinRel(1 / speed, 0.003));
}

TEST_CASE("quantiles lie between order statistics", "[economics]") {
  Distribution wall;
  wall.sorted = {Seconds{1}, Seconds{2}, Seconds{4}};
  CHECK(wall.quantile(0) == Seconds{1});
  CHECK(wall.quantile(0.75) == Seconds{3});
  CHECK(wall.quantile(1) == Seconds{4});
  CHECK_THAT(wall.probability_within(Seconds{2}), WithinRel(2.0 / 3, 1e-12));
}
