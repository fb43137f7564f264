// Tiers of checkpoints, pools of nodes, silent corruption: the closed form beside played runs.
#include <cmath>
#include <numeric>

#include "sim/economics/monte_carlo.hpp"
#include "sim/economics/node_pool.hpp"
#include "sim/economics/run_model.hpp"
#include "tests/catch.hpp"

using sim::Distribution;
using sim::never;
using sim::NodePool;
using sim::RunModel;
using sim::Seconds;

namespace {

constexpr Seconds hour{3600};

// Ten days, stored every 2 h, kept in memory every 5 min.
RunModel two_tiers() {
  RunModel run;
  run.work = 240 * hour;
  run.segments = 120;
  run.stall = Seconds{2};
  run.failures = {.every = 4 * hour, .restart = Seconds{900}};
  run.software = 0.3;
  run.software_restart = Seconds{600};
  run.memory = {.per_segment = 24,
                .saved = Seconds{200},
                .survives_software = true,
                .survives_node = true,
                .second_is_partner = 0.5};
  return run;
}

// `slack` for what enters the closed form with its mean: a share of the wall time.
void check_closed_form(const RunModel& run, double slack = 0) {
  const Distribution wall = sim::wall_times(sim::play(run, 4000, 7));
  const Seconds expected = sim::expected_wall_time(run);
  CAPTURE(wall.mean.count(), expected.count(), wall.standard_error.count());
  CHECK(wall.standard_error / wall.mean < 0.01);
  CHECK(std::abs((wall.mean - expected) / expected) < 4 * (wall.standard_error / expected) + slack);
}

}  // namespace

TEST_CASE("played runs with two tiers of checkpoints have the expected wall time", "[economics]") {
  RunModel run = two_tiers();
  double slack = 0;
  SECTION("a peer holds a copy") {}
  SECTION("only software leaves the memory") {
    run.memory.survives_node = false;
  }
  SECTION("failures during restarts hit the partner") {
    run.failures.restart = 2 * hour;
    run.software_restart = hour;
  }
  SECTION("preemptions take nodes, too") {
    run.preemptions = {.every = 6 * hour, .restart = Seconds{300}};
  }
  SECTION("copies usable late") {
    run.memory.lag = Seconds{200};
    slack = 1e-4;
  }
  SECTION("both tiers usable late") {
    run.memory.survives_node = false;
    run.memory.lag = Seconds{100};
    run.lag = hour;
    slack = 0.005;
  }
  check_closed_form(run, slack);
}

TEST_CASE("a tier that nothing survives is one of storage alone", "[economics]") {
  RunModel run = two_tiers();
  run.memory.survives_node = run.memory.survives_software = false;
  RunModel alone = run;
  alone.memory = {};
  alone.stall = run.stall * 24;
  CHECK_THAT(sim::expected_wall_time(run).count(),
             WithinRel(sim::expected_wall_time(alone).count(), 1e-9));
}

TEST_CASE("memory that always survives is as good as storage that often", "[economics]") {
  RunModel run = two_tiers();
  run.memory.second_is_partner = 0;
  run.memory.saved = Seconds{0};
  RunModel often = run;
  often.memory = {};
  often.segments = run.parts();
  CHECK_THAT(sim::expected_wall_time(run).count(),
             WithinRel(sim::expected_wall_time(often).count(), 1e-9));
}

TEST_CASE("played runs with silent corruption have the expected wall time", "[economics]") {
  RunModel run = two_tiers();
  run.corruption = {
      .every = 50 * hour, .segments_per_check = 3, .check = Seconds{300}, .restart = Seconds{800}};
  SECTION("two tiers") {}
  SECTION("one tier") {
    run.memory = {};
  }
  SECTION("corruption alone") {
    run.failures = {};
  }
  check_closed_form(run);
}

TEST_CASE("a played run counts what its checks find", "[economics]") {
  RunModel run = two_tiers();
  run.failures = {};
  run.corruption = {.every = 20 * hour, .segments_per_check = 2, .check = Seconds{60}};
  double found = 0;
  for (const sim::Played& one : sim::play(run, 2000, 4)) {
    found += static_cast<double>(one.corruptions) / 2000;
    const Seconds planned = run.work + run.part_stall() * static_cast<double>(run.parts());
    CHECK_THAT((planned + one.lost + one.down).count(), WithinRel(one.wall.count(), 1e-9));
  }
  // 60 checks of 4 h of work: each is done again exp(4 / 20) - 1 times.
  CHECK_THAT(found, WithinRel(60 * std::expm1(0.2), 0.02));
}

TEST_CASE("a job waits for spare nodes as often as Erlang's loss system is full", "[economics]") {
  // Two servers, a load of 1: B = (1/2) / (1 + 1 + 1/2).
  const NodePool pool{.limited = true, .spares = 1, .repair = 10 * hour};
  CHECK_THAT(sim::pool_shares(pool, 10 * hour).waiting, WithinRel(0.2, 1e-12));
  // Erlang's table: 10 servers, 5 erlang: 1.84 %.
  const NodePool ten{.limited = true, .spares = 9, .repair = 50 * hour};
  CHECK_THAT(sim::pool_shares(ten, 10 * hour).waiting, WithinAbs(0.0184, 5e-5));
  CHECK(sim::pool_shares({}, hour).waiting == 0);
  // Far more losses than repairs, and far fewer.
  const NodePool none{.limited = true, .spares = 100, .repair = 1e6 * hour};
  CHECK_THAT(sim::pool_shares(none, hour).waiting, WithinRel(1 - 1e-4, 1e-5));
  CHECK(sim::pool_shares({.limited = true, .spares = 5000, .repair = hour}, hour).waiting == 0);
}

TEST_CASE("played runs with few spares have the expected wall time", "[economics]") {
  RunModel run = two_tiers();
  run.work = 2000 * hour;
  run.segments = 1000;
  run.pool = {.limited = true, .spares = 2, .repair = 12 * hour};
  run.failures.every = 8 * hour;
  double slack = 0.002;  // the first days, in which all spares are there
  SECTION("the job waits") {}
  SECTION("the job goes on with fewer replicas") {
    run.pool.spares = 1;
    run.pool.speeds = {0.97, 0.9};
    run.pool.resize = Seconds{240};
    slack = 0.004;
  }
  SECTION("no spares at all") {
    run.pool.spares = 0;
    run.pool.repair = 4 * hour;
  }
  const Distribution wall = sim::wall_times(sim::play(run, 300, 7));
  const Seconds expected = sim::expected_wall_time(run);
  CAPTURE(wall.mean.count(), expected.count(), wall.standard_error.count());
  CHECK(std::abs(wall.mean / expected - 1) < 4 * (wall.standard_error / expected) + slack);
  // It is not the wall time of a job that never waits.
  RunModel unlimited = run;
  unlimited.pool = {};
  CHECK(expected > sim::expected_wall_time(unlimited) * 1.01);
}

TEST_CASE("each spare, each smaller size and each copy shortens a run", "[economics]") {
  RunModel run = two_tiers();
  run.pool = {.limited = true, .spares = 0, .repair = 12 * hour};
  Seconds before = sim::expected_wall_time(run);
  for (run.pool.spares = 1; run.pool.spares < 12; ++run.pool.spares) {
    const Seconds now = sim::expected_wall_time(run);
    CHECK(now < before);
    before = now;
  }
  run.pool.spares = 1;
  before = sim::expected_wall_time(run);
  for (const double speed : {0.9, 0.8, 0.7}) {
    run.pool.speeds.push_back(speed);
    const Seconds now = sim::expected_wall_time(run);
    CHECK(now < before);
    before = now;
  }
  run.memory.survives_node = false;
  CHECK(sim::expected_wall_time(run) > before);
}

TEST_CASE("a run whose memory survives and that still never ends is infinite", "[economics]") {
  RunModel run = two_tiers();
  run.failures = {.every = Seconds{1}, .restart = 1e4 * hour};
  run.software_restart = 1e4 * hour;
  CHECK(std::isinf(sim::expected_wall_time(run).count()));
}

TEST_CASE("stalls by link flaps slow the work down, and no more", "[economics]") {
  RunModel run = two_tiers();
  run.flap_stalls = 0.05;
  check_closed_form(run);
  RunModel calm = two_tiers();
  calm.failures = {};
  RunModel flapping = calm;
  flapping.flap_stalls = 0.05;
  CHECK_THAT(sim::expected_wall_time(flapping) / sim::expected_wall_time(calm),
             WithinAbs(1.05, 0.002));  // checkpoints take no longer
}
