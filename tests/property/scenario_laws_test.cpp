// Laws that every forecast keeps, on random scenarios. A failure prints the seed and the scenario.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <tuple>

#include "sim/engine/simulate.hpp"
#include "sim/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/property/random_scenario.hpp"
#include "tests/property/support.hpp"
#include "tests/support/source_dir.hpp"

namespace {

using namespace sim;
using namespace sim::test;

// Seeds are numbered per law, so that one law's number of scenarios does not move another's.
std::uint64_t seed_of(std::uint64_t law, std::uint64_t i) {
  return law * 1'000'000 + i;
}

Simulation run(const Scenario& scenario, const Plan& plan,
               const std::function<void(SimulationOptions&)>& change = {}) {
  SimulationOptions options = scenario.options;
  if (change) change(options);
  return simulate(plan, scenario.cluster, options);
}

using SpanKey = std::tuple<std::uint32_t, TimePoint, TimePoint, TimePoint>;
std::vector<SpanKey> key_of(const std::vector<Span>& spans) {
  std::vector<SpanKey> key;
  key.reserve(spans.size());
  for (const Span& span : spans)
    key.emplace_back(span.op.value, span.begin, span.active, span.end);
  return key;
}

bool same_links(const Timeline& a, const Timeline& b) {
  const auto same = [](const LinkLoad& x, const LinkLoad& y) {
    return x.link == y.link && x.represents == y.represents && x.carried == y.carried &&
           x.busy == y.busy;
  };
  return std::equal(a.links.begin(), a.links.end(), b.links.begin(), b.links.end(), same);
}

TEST_CASE("the same scenario gives the same timeline every time", "[laws]") {
  for (std::uint64_t i = 0; i < 200; ++i) {
    const RandomScenario random = random_scenario(seed_of(1, i));
    INFO("seed " << seed_of(1, i) << "\n" << random.yaml);
    const double jitter = i % 3 == 0 ? 0.1 : 0;
    const auto once = [&] {
      return run(random.scenario, make_plan(random.scenario.model, random.scenario.layout),
                 [&](SimulationOptions& options) { options.jitter = jitter; });
    };
    const Simulation a = once();
    const Simulation b = once();
    REQUIRE(a.timeline.end == b.timeline.end);
    REQUIRE(a.timeline.tracks.size() == b.timeline.tracks.size());
    for (std::size_t t = 0; t < a.timeline.tracks.size(); ++t)
      REQUIRE(key_of(a.timeline.tracks[t].spans) == key_of(b.timeline.tracks[t].spans));
    REQUIRE(same_links(a.timeline, b.timeline));
    REQUIRE(a.timeline.collectives == b.timeline.collectives);
  }
}

// How many ranks behave in each of the ways that occur.
std::map<std::pair<std::uint32_t, std::vector<SpanKey>>, std::uint32_t> behaviours(
    const Plan& plan, const Timeline& timeline) {
  std::map<std::pair<std::uint32_t, std::vector<SpanKey>>, std::uint32_t> ranks;
  for (const RankTrack& track : timeline.tracks)
    ranks[{plan.program_of_rank[track.rank.value], key_of(track.spans)}] += track.represents;
  return ranks;
}

// Bytes over all links of each load, and the number of links.
std::map<std::pair<std::int64_t, std::int64_t>, std::uint32_t> loads(const Timeline& timeline) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::uint32_t> links;
  for (const LinkLoad& load : timeline.links)
    links[{load.carried.count(), load.busy.count()}] += load.represents;
  return links;
}

TEST_CASE("a folded simulation is the unfolded one to the picosecond", "[laws]") {
  int folded_away = 0;
  for (std::uint64_t i = 0; i < 400; ++i) {
    const RandomScenario random = random_scenario(seed_of(2, i));
    INFO("seed " << seed_of(2, i) << "\n" << random.yaml);
    const Plan plan = make_plan(random.scenario.model, random.scenario.layout);
    const Simulation folded = run(random.scenario, plan);
    const Simulation whole = run(random.scenario, plan, [](SimulationOptions& options) {
      options.fold = false;
      options.record_all = true;
    });
    REQUIRE(folded.timeline.end == whole.timeline.end);
    REQUIRE(whole.timeline.tracks.size() == static_cast<std::size_t>(plan.world_size()));
    // A representative does what the same rank does in the whole ...
    for (const RankTrack& track : folded.timeline.tracks) {
      const auto same_rank = [&](const RankTrack& other) { return other.rank == track.rank; };
      const auto other =
          std::find_if(whole.timeline.tracks.begin(), whole.timeline.tracks.end(), same_rank);
      REQUIRE(other != whole.timeline.tracks.end());
      REQUIRE(key_of(track.spans) == key_of(other->spans));
    }
    // ... and as many ranks do the same as it stands for.
    REQUIRE(behaviours(plan, folded.timeline) == behaviours(plan, whole.timeline));
    REQUIRE(loads(folded.timeline) == loads(whole.timeline));
    folded_away += plan.world_size() - static_cast<int>(folded.stats.rank_classes);
  }
  REQUIRE(folded_away > 1000);  // else the law would hold for nothing
}

bool after_its_causes(const Program& program, const RankTrack& track, OpId op) {
  const std::span<const OpId> dependencies = program.dependencies(op);
  return std::all_of(dependencies.begin(), dependencies.end(), [&](OpId dependency) {
    return track.spans[op.value].begin >= track.spans[dependency.value].end;
  });
}

// A stream is in order and an operator starts after what it depends on. Returns how long each
// stream is busy.
std::array<Duration, stream_count> check_causality(const Program& program, const RankTrack& track) {
  std::array<TimePoint, stream_count> free{};
  std::array<Duration, stream_count> busy{};
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    const Span& span = track.spans[op];
    const auto stream = static_cast<std::size_t>(program.stream[op]);
    const bool ordered =
        span.begin >= free[stream] && span.active >= span.begin && span.end >= span.active;
    if (span.op != OpId{op} || !ordered || !after_its_causes(program, track, OpId{op}))
      FAIL("rank " << track.rank.value << ", operator " << op << " " << program.name(OpId{op}));
    free[stream] = span.end;
    busy[stream] += span.end - span.begin;
  }
  return busy;
}

TEST_CASE("streams are in order, causes precede effects, no lane outlasts the step", "[laws]") {
  for (std::uint64_t i = 0; i < 150; ++i) {
    const RandomScenario random = random_scenario(seed_of(3, i));
    INFO("seed " << seed_of(3, i) << "\n" << random.yaml);
    const Plan plan = make_plan(random.scenario.model, random.scenario.layout);
    const double jitter = i % 4 == 0 ? 0.2 : 0;
    const Simulation simulation =
        run(random.scenario, plan, [&](SimulationOptions& options) { options.jitter = jitter; });
    for (const RankTrack& track : simulation.timeline.tracks) {
      const Program& program = plan.program(track.rank);
      REQUIRE(track.spans.size() == program.size());
      for (const Duration lane : check_causality(program, track))
        REQUIRE(simulation.timeline.end - TimePoint{} >= lane);
    }
  }
}

TEST_CASE("no link carries more than its capacity allows", "[laws]") {
  for (std::uint64_t i = 0; i < 200; ++i) {
    const RandomScenario random = random_scenario(seed_of(4, i));
    INFO("seed " << seed_of(4, i) << "\n" << random.yaml);
    const Plan plan = make_plan(random.scenario.model, random.scenario.layout);
    const Simulation simulation = run(random.scenario, plan);
    for (const LinkLoad& load : simulation.timeline.links) {
      CAPTURE(random.scenario.cluster.link_name(load.link));
      const double most = random.scenario.cluster.link(load.link).capacity.in_bytes_per_second() *
                          to_seconds(load.busy);
      // Times are whole picoseconds and weights whole 65536ths.
      REQUIRE(static_cast<double>(load.carried.count()) <= most * (1 + 1e-3) + 1024);
      REQUIRE(TimePoint{} + load.busy <= simulation.timeline.end);
    }
  }
}

// Below a packet the engine counts the time of a message but no load on links
// (sim/engine/cost_table.cpp).
double loading(double bytes) {
  constexpr double packet = 4096;
  return bytes < packet ? 0 : bytes;
}

// Bytes that rank `rank` sends over the network of its group in a step: by ring, 2 (p - 1) / p of
// the buffer for an all-reduce, (p - 1) / p for a reduce-scatter or an all-gather.
double sent_by(const Plan& plan, RankId rank) {
  const Program& program = plan.program(rank);
  double bytes = 0;
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    if (program.kind[op] == OpKind::send)
      bytes += loading(static_cast<double>(program.transfers[program.work[op]].bytes.count()));
    if (program.kind[op] != OpKind::collective) continue;
    const Collective& request = program.collectives[program.work[op]];
    const std::uint32_t group = plan.group_of[rank.value][static_cast<std::size_t>(request.group)];
    const auto p = static_cast<int>(plan.groups[group].ranks.size());
    bytes += loading(static_cast<double>(request.bytes.count()) * bus_factor(request.kind, p));
  }
  return bytes;
}

double bytes_on(const Simulation& simulation, const Cluster& cluster, LinkKind kind) {
  double bytes = 0;
  for (const LinkLoad& load : simulation.timeline.links)
    if (cluster.link(load.link).kind == kind)
      bytes += static_cast<double>(load.carried.count()) * load.represents;
  return bytes;
}

// On one node, every message of a ring goes from a GPU to the switch and from the switch to a GPU;
// on nodes of one GPU, out of one NIC and into another. What the links carried is twice what the
// plan says that ranks send, whatever was simulated folded or step by step.
TEST_CASE("links carry the bytes that the plan's messages hold", "[laws]") {
  for (std::uint64_t i = 0; i < 200; ++i) {
    const bool one_node = i % 2 == 0;
    ScenarioLimits limits;
    limits.most_ranks = one_node ? 8 : 32;
    limits.trouble = false;
    limits.algorithm = "ring";
    limits.cluster_yaml = one_node ? switch_node_yaml(8, 400) : flat_cluster_yaml({.nodes = 32});
    const RandomScenario random = random_scenario(seed_of(5, i), limits);
    INFO("seed " << seed_of(5, i) << "\n" << random.yaml);
    const Plan plan = make_plan(random.scenario.model, random.scenario.layout);
    double sent = 0;
    for (std::uint32_t rank = 0; rank < static_cast<std::uint32_t>(plan.world_size()); ++rank)
      sent += sent_by(plan, RankId{rank});
    for (const CollectiveModel model : {CollectiveModel::fluid, CollectiveModel::stepwise}) {
      CAPTURE(word(model));
      const Simulation simulation = run(
          random.scenario, plan, [&](SimulationOptions& options) { options.collectives = model; });
      const double carried = bytes_on(simulation, random.scenario.cluster,
                                      one_node ? LinkKind::nvlink : LinkKind::nic);
      REQUIRE_THAT(carried, WithinRel(2 * sent, 2e-3));
    }
  }
}

// Where nothing is shared, a faster network can only help: one dimension of parallelism, so that
// no two collectives meet on a link, and no communication beside compute.
TEST_CASE("more bandwidth is never slower without contention", "[laws]") {
  for (std::uint64_t i = 0; i < 200; ++i) {
    const bool one_node = i % 2 == 0;
    TimePoint before = TimePoint::max();
    for (const double factor : {1.0, 1.5, 4.0}) {
      ScenarioLimits limits;
      limits.most_ranks = 8;
      limits.trouble = limits.overlap = false;
      limits.one_dimension = true;
      limits.algorithm = "ring";
      limits.cluster_yaml = one_node ? switch_node_yaml(8, 50 * factor)
                                     : flat_cluster_yaml({.nodes = 8, .nic_gbps = 50 * factor});
      const RandomScenario random = random_scenario(seed_of(6, i), limits);
      INFO("seed " << seed_of(6, i) << ", bandwidth x" << factor << "\n" << random.yaml);
      const Plan plan = make_plan(random.scenario.model, random.scenario.layout);
      const TimePoint end = run(random.scenario, plan).timeline.end;
      REQUIRE(end <= before);
      before = end;
    }
  }
}

// Messages one by one, against one activity per collective, where nothing else is on the links.
// Only on nodes with NVSwitches: on an NVLink mesh a fluid ring stands for the several rings that
// NCCL runs at once over different links, of which the message sequence is one.
TEST_CASE("stepwise collectives take within 2% of the time of fluid ones", "[laws]") {
  for (std::uint64_t i = 0; i < 300; ++i) {
    ScenarioLimits limits;
    limits.most_ranks = 32;
    limits.trouble = limits.overlap = false;
    limits.one_dimension = limits.nvswitch = true;
    if (i % 2 == 0) limits.algorithm = "ring";
    const RandomScenario random = random_scenario(seed_of(7, i), limits);
    INFO("seed " << seed_of(7, i) << "\n" << random.yaml);
    const Plan plan = make_plan(random.scenario.model, random.scenario.layout);
    // Keys and values move beside kernels whatever `overlap` says, and messages one by one hold the
    // device from the first to the last of them.
    const bool alone = random.scenario.layout.context_parallel == 1;
    const auto end = [&](CollectiveModel model) {
      return run(random.scenario, plan,
                 [&](SimulationOptions& options) {
                   options.collectives = model;
                   options.interference = alone;
                 })
          .timeline.end;
    };
    REQUIRE_THAT(to_seconds(end(CollectiveModel::stepwise)),
                 WithinRel(to_seconds(end(CollectiveModel::fluid)), 0.02));
  }
}

// The links to the cores of a large fabric carry tens of terabytes a second.
TEST_CASE("transfers can be taken alone on the largest machine, too", "[laws]") {
  const Scenario demo =
      load_scenario(sim::test::source_dir() + "/scenarios/llama-3.1-405b-16384-h100.yaml");
  const Plan plan = make_plan(demo.model, demo.layout);
  const auto alone = [](SimulationOptions& options) { options.link_contention = false; };
  // Transfers that end sooner meet other kernels: not faster throughout, but close.
  CHECK_THAT(to_seconds(run(demo, plan, alone).timeline.end),
             WithinRel(to_seconds(run(demo, plan).timeline.end), 0.03));
}

// Where the host lags behind, streams wait for it again and again: that may not multiply events.
TEST_CASE("a slow host costs a few events per operator", "[laws]") {
  for (std::uint64_t i = 0; i < 100; ++i) {
    const RandomScenario random = random_scenario(seed_of(31, i));
    INFO("seed " << seed_of(31, i) << "\n" << random.yaml);
    const Simulation slow =
        run(random.scenario, make_plan(random.scenario.model, random.scenario.layout),
            [](SimulationOptions& options) {
              options.graphs = false;
              options.host_issue = std::chrono::microseconds{20};
            });
    REQUIRE(slow.stats.events <= 5 * slow.stats.activities);
  }
}

}  // namespace
