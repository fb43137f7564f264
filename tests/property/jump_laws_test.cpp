// A jump over whole periods of a steady state (sim/engine/JUMP.md) changes nothing: random
// scenarios with many micro-batches, to the picosecond and to the last count, with and without.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <string>

#include "sim/engine/simulate.hpp"
#include "sim/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/property/random_scenario.hpp"
#include "tests/support/source_dir.hpp"

namespace {

using namespace sim;
using namespace sim::test;

bool same_spans(const RankTrack& a, const RankTrack& b) {
  const auto same = [](const Span& x, const Span& y) {
    return x.op == y.op && x.begin == y.begin && x.active == y.active && x.end == y.end;
  };
  return a.rank == b.rank && a.represents == b.represents &&
         std::equal(a.spans.begin(), a.spans.end(), b.spans.begin(), b.spans.end(), same);
}

bool same_load(const LinkLoad& a, const LinkLoad& b) {
  return a.link == b.link && a.represents == b.represents && a.carried == b.carried &&
         a.busy == b.busy;
}

void require_same(const Simulation& with, const Simulation& without) {
  const Timeline& a = with.timeline;
  const Timeline& b = without.timeline;
  REQUIRE(a.end == b.end);
  REQUIRE(with.stats.events == without.stats.events);
  REQUIRE(with.stats.activities == without.stats.activities);
  REQUIRE(with.stats.rank_classes == without.stats.rank_classes);
  REQUIRE(
      std::equal(a.tracks.begin(), a.tracks.end(), b.tracks.begin(), b.tracks.end(), same_spans));
  REQUIRE(std::equal(a.links.begin(), a.links.end(), b.links.begin(), b.links.end(), same_load));
  REQUIRE(a.collectives == b.collectives);
}

// A limit that the step keeps changes nothing; one that it does not keep is left for some time that
// the step takes at least (sim/engine/least_left.hpp).
void require_limit(const Plan& plan, const Cluster& cluster, SimulationOptions options,
                   Duration exact) {
  options.limit = exact;
  REQUIRE(simulate(plan, cluster, options).timeline.end.time_since_epoch() == exact);
  for (const std::int64_t hundredths : {99, 80, 30}) {
    options.limit = exact / 100 * hundredths;
    const Duration least = simulate(plan, cluster, options).timeline.end.time_since_epoch();
    REQUIRE(least > *options.limit);
    REQUIRE(least <= exact);
  }
}

// Simulates it both ways; what share of the events is jumped over.
double compare(const Plan& plan, const Cluster& cluster, SimulationOptions options) {
  options.jump = true;
  const Simulation with = simulate(plan, cluster, options);
  options.jump = false;
  const Simulation without = simulate(plan, cluster, options);
  REQUIRE(without.stats.jumped_events == 0);
  require_same(with, without);
  options.jump = true;
  options.record_spans = false;  // its state is told apart by less
  REQUIRE(simulate(plan, cluster, options).timeline.end == without.timeline.end);
  require_limit(plan, cluster, options, without.timeline.end.time_since_epoch());
  return static_cast<double>(with.stats.jumped_events) / static_cast<double>(with.stats.events);
}

// As many micro-batches as a draw says, whole rounds where stages are interleaved.
void take_micro_batches(Dice& dice, Layout& layout) {
  const int rounds = 3 + dice.below(14);
  const bool whole = layout.virtual_stages > 1;
  const int micro_batches =
      rounds * layout.pipeline_parallel + (whole ? 0 : dice.below(layout.pipeline_parallel));
  layout.global_batch = std::int64_t{micro_batches} * layout.micro_batch * layout.data_parallel;
}

struct Tally {
  int scenarios = 0, jumped = 0;
  double share = 0;  // of the events, summed over the scenarios
};

Tally compare_random(std::uint64_t first, int count,
                     const std::function<void(Dice&, SimulationOptions&)>& change,
                     const ScenarioLimits& limits = {}) {
  Tally tally;
  for (std::uint64_t seed = first; tally.scenarios < count; ++seed) {
    RandomScenario random = random_scenario(seed, limits);
    Dice dice{seed};
    take_micro_batches(dice, random.scenario.layout);
    change(dice, random.scenario.options);
    INFO("seed " << seed << ", global_batch " << random.scenario.layout.global_batch << "\n"
                 << random.yaml);
    REQUIRE(layout_problems(random.scenario.layout, random.scenario.model).empty());
    const double share = compare(make_plan(random.scenario.model, random.scenario.layout),
                                 random.scenario.cluster, random.scenario.options);
    ++tally.scenarios;
    tally.jumped += share > 0 ? 1 : 0;
    tally.share += share;
  }
  WARN(tally.jumped << " of " << tally.scenarios << " jump, over "
                    << 100 * tally.share / tally.scenarios << " % of the events");
  return tally;
}

// STEPCAST_JUMPS=2000: more of them, by hand.
TEST_CASE("a jump changes no time, no span and no sum", "[jump]") {
  const char* asked = std::getenv("STEPCAST_JUMPS");
  const int count = asked == nullptr ? 800 : std::atoi(asked);
  const Tally tally = compare_random(71'000'000, count, [](Dice&, SimulationOptions&) {});
  REQUIRE(tally.jumped > tally.scenarios / 3);  // else the law would hold for nothing
}

TEST_CASE("nor does it where all ranks are simulated", "[jump]") {
  const Tally tally = compare_random(72'000'000, 150, [](Dice&, SimulationOptions& options) {
    options.fold = false;
    options.record_all = true;
  });
  REQUIRE(tally.jumped > tally.scenarios / 3);
}

TEST_CASE("nor does it for a slow host or an endless one", "[jump]") {
  const Tally tally = compare_random(73'000'000, 300, [](Dice& dice, SimulationOptions& options) {
    constexpr std::array issues{Duration{1'000'000}, Duration{10'000'000}, Duration{100'000'000}};
    options.graphs = false;
    options.host_issue = dice.pick(issues);
  });
  REQUIRE(tally.jumped > tally.scenarios / 10);
}

TEST_CASE("kernels with times of their own are not jumped over", "[jump]") {
  const Tally tally = compare_random(
      74'000'000, 20, [](Dice&, SimulationOptions& options) { options.jitter = 0.05; });
  REQUIRE(tally.jumped == 0);
}

TEST_CASE("messages one by one are not jumped over", "[jump]") {
  ScenarioLimits limits;
  limits.most_ranks = 8;
  limits.trouble = false;
  limits.one_dimension = limits.nvswitch = true;
  const auto stepwise = [](Dice&, SimulationOptions& options) {
    options.collectives = CollectiveModel::stepwise;
  };
  REQUIRE(compare_random(75'000'000, 5, stepwise, limits).jumped == 0);
}

Layout deepseek_layout(Schedule schedule, int micro_batches) {
  Layout layout;
  layout.tensor_parallel = 2;
  layout.pipeline_parallel = 16;
  layout.data_parallel = 64;
  layout.sequence_length = 4096;
  layout.global_batch = std::int64_t{64} * micro_batches;
  layout.expert_parallel = 8;
  layout.schedule = schedule;
  layout.sequence_parallel = true;
  layout.zero_stage = 1;
  layout.layers_per_chunk = {4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 3, 3, 3};
  return layout;
}

// Its step grows by the same time with every micro-batch from 40 to 66 under zb-h1, and is another
// at 240 than that says; under 1f1b it has no period yet after 66.
TEST_CASE("a step that only seems periodic is simulated to the end", "[jump]") {
  const Model model = load_model(source_dir() + "/models/deepseek-v3.yaml");
  const Cluster cluster = Cluster::load(source_dir() + "/topologies/dgx-h100.yaml", 256);
  for (const Schedule schedule : {Schedule::zb_h1, Schedule::one_f_one_b})
    for (const int micro_batches : {40, 66, 240}) {
      CAPTURE(word(schedule), micro_batches);
      const Layout layout = deepseek_layout(schedule, micro_batches);
      REQUIRE(layout_problems(layout, model).empty());
      compare(make_plan(model, layout), cluster, {});
    }
}

}  // namespace
