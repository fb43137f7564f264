// Execution traces on a cluster.
#include "sim/chakra/et_plan.hpp"

#include "sim/base/input_error.hpp"
#include "sim/chakra/et_text.hpp"
#include "sim/collective/load_cluster.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/unit/chakra/traces.hpp"

using namespace sim;
using namespace sim::test;

namespace {

Simulation simulated(const EtPlan& planned) {
  const Cluster cluster = load_cluster(source_dir() + "/topologies/dgx-h100.yaml", 1);
  return simulate(planned.plan, cluster, {.fold = false, .graphs = true, .record_all = true});
}

std::int64_t step_micros(const EtRun& run) {
  return (simulated(plan_of(run)).timeline.end - TimePoint{}).count() / 1'000'000;
}

}  // namespace

TEST_CASE("execution traces: compute takes the time of the trace, one after another") {
  CHECK(step_micros(et_run({{et_compute(1, 100), et_compute(2, 50)}})) == 150);
  // Nodes of the host run beside the device.
  EtNode host = et_compute(2, 120);
  host.on_host = true;
  CHECK(step_micros(et_run({{et_compute(1, 100), host}})) == 120);
}

TEST_CASE("execution traces: a node waits for those that it depends on, through metadata") {
  EtNode host = et_compute(2, 200);
  host.on_host = true;
  EtNode join{.id = 3, .name = "join", .type = EtType::metadata};
  join.dependencies = {2};
  const EtRun run = et_run({{et_compute(1, 100), host, join, et_compute(4, 10, {3})}});
  CHECK(step_micros(run) == 210);
}

TEST_CASE("execution traces: a collective runs beside compute that does not wait for it") {
  const std::uint64_t bytes = 64 << 20;
  const auto rank = [&](bool waits) {
    std::vector<EtNode> nodes{et_collective(1, EtCollective::all_reduce, bytes)};
    nodes.push_back(
        et_compute(2, 2000, waits ? std::vector<std::uint64_t>{1} : std::vector<std::uint64_t>{}));
    return nodes;
  };
  const std::int64_t beside = step_micros(et_run({rank(false), rank(false)}));
  const std::int64_t behind = step_micros(et_run({rank(true), rank(true)}));
  CHECK(beside == 2000);
  CHECK(behind > 2100);
  CHECK(behind < 3500);
}

TEST_CASE("execution traces: bytes of an all-gather are those that a rank gives") {
  const auto of = [](EtCollective kind, std::uint64_t bytes) {
    return step_micros(et_run(
        std::vector<std::vector<EtNode>>(8, std::vector<EtNode>{et_collective(1, kind, bytes)})));
  };
  const std::int64_t gather = of(EtCollective::all_gather, 32 << 20);
  const std::int64_t scatter = of(EtCollective::reduce_scatter, 256 << 20);
  CHECK(std::abs(gather - scatter) * 10 < gather);
}

TEST_CASE("execution traces: groups and messages go where they are named") {
  EtRun run = et_run({{et_collective(1, EtCollective::all_reduce, 1 << 20, {}, "1"),
                       et_message(2, EtType::send, 0, 2, 1 << 20, {1})},
                      {et_collective(1, EtCollective::all_reduce, 1 << 20, {}, "1")},
                      {et_message(1, EtType::receive, 0, 2, 1 << 20), et_compute(2, 10, {1})},
                      {et_compute(1, 5)}});
  run.groups["1"] = {RankId{0}, RankId{1}};
  const EtPlan planned = plan_of(run);
  const Simulation result = simulated(planned);
  const EtReport report = report_of(run, planned, result, "dgx-h100");
  REQUIRE(report.ranks.size() == 4);
  CHECK(report.ranks[2].compute == Duration{10'000'000});
  for (const EtRankTimes& rank : report.ranks)
    CHECK(rank.compute + rank.exposed + rank.waiting == report.step);
  CHECK(report.ranks[1].exposed > Duration{});
  CHECK(et_table(report).find("4 ranks") != std::string::npos);
}

TEST_CASE("execution traces: kernels without a time take that of their FLOPs") {
  EtNode kernel = et_compute(1, 0);
  kernel.operations = 1e14;
  kernel.tensor_bytes = 1 << 20;
  const EtPlan planned = plan_of(et_run({{kernel}}));
  REQUIRE(planned.notes.size() == 1);
  CHECK(planned.notes[0].find("FLOPs") != std::string::npos);
  const std::int64_t micros = step_micros(et_run({{kernel}}));
  CHECK(micros > 100'000);  // an H100 has 989 TFLOP/s
  CHECK(micros < 250'000);
}

TEST_CASE("execution traces: what has no counterpart is refused") {
  CHECK_THROWS_WITH(plan_of(et_run({{et_compute(1, 5, {2}), et_compute(2, 5, {1})}})),
                    contains_text("in a circle"));
  CHECK_THROWS_WITH(plan_of(et_run({{et_compute(1, 5), et_compute(1, 5)}})),
                    contains_text("two nodes have the id 1"));
  const EtNode gather = et_collective(1, EtCollective::gather, 8);
  CHECK_THROWS_WITH(plan_of(et_run({{gather}, {gather}})), contains_text("gather or a scatter"));
  const EtNode named = et_collective(1, EtCollective::all_reduce, 8, {}, "9");
  CHECK_THROWS_WITH(plan_of(et_run({{named}, {named}})), contains_text("no group '9'"));
  EtNode part = et_collective(1, EtCollective::all_reduce, 8);
  part.dimensions = {true, false};
  CHECK_THROWS_WITH(plan_of(et_run({{part}, {part}})), contains_text("involved_dim"));
}
