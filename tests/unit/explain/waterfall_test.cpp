#include "sim/explain/waterfall.hpp"

#include <algorithm>

#include "sim/base/input_error.hpp"
#include "sim/explain/explanation.hpp"
#include "sim/explain/same_job.hpp"
#include "sim/forecast/record.hpp"
#include "sim/scenario/sources.hpp"
#include "tests/catch.hpp"
#include "tests/property/traced_forecast.hpp"
#include "tests/support/source_dir.hpp"

namespace {

using namespace sim;
using namespace sim::test;

Scenario small_scenario() {
  constexpr const char* yaml =
      "name: small\n"
      "model: models/gpt2.yaml\n"
      "cluster: {path: topologies/dgx-h100.yaml, nodes: 1, gpus: 2}\n"
      "layout: {data_parallel: 2, sequence_length: 1024, global_batch: 8, micro_batch: 4}\n"
      "simulation: {graphs: true}\n";
  return load_scenario(ScenarioSources::of_text(yaml, source_dir() + "/small.yaml"));
}

struct Small {
  Forecast forecast = sim::forecast(small_scenario(), {.every_rank = true});
  Record record = make_record(*forecast.plan, forecast.timeline, {});
};

OpTrouble slower_products(RankId, const Program& program, OpId op) {
  OpTrouble made;
  if (program.kind[op.value] == OpKind::gemm) made.longer = std::chrono::microseconds{10};
  return made;
}

OpTrouble no_trouble(RankId, const Program&, OpId) {
  return {};
}

TEST_CASE("the parts of a waterfall sum to measured less forecast, and the largest is first") {
  const Small small;
  const ReplayedStep replayed = replay(small.forecast, slower_products);
  const Waterfall found = make_waterfall(replayed.run, small.record);
  Duration sum{};
  for (const WaterfallPart& part : found.parts) {
    sum += part.time;
    Duration items{};
    for (const WaterfallItem& item : part.items)
      items += item.time;
    CHECK(items == part.time);
  }
  CHECK(sum == found.difference());
  CHECK(found.measured == replayed.end);
  REQUIRE_FALSE(found.parts.empty());
  CHECK(found.parts.front().kind == TroubleKind::products);
  CHECK(found.parts.front().sentence.find("matrix products slower") == 0);
  CHECK(found.parts.front().sentence.find("of the forecast's rate") != std::string::npos);
  CHECK(found.differences.empty());
  CHECK(found.matched == Approx(1));
}

TEST_CASE("items of a waterfall have their operators, idle time those that came late") {
  const Small small;
  const Program& program = small.record.programs[small.record.tracks[0].program];
  const Waterfall found = make_waterfall(replay(small.forecast, slower_products).run, small.record);
  REQUIRE_FALSE(found.parts.empty());
  std::size_t products = 0;
  for (const WaterfallItem& item : found.parts.front().items) {
    REQUIRE_FALSE(item.ops.empty());
    for (const std::uint32_t op : item.ops) {
      CHECK(program.kind[op] == OpKind::gemm);
      CHECK(item.name.find(program.name(OpId{op})) == 0);
    }
    products += item.ops.size();
  }
  CHECK(products == static_cast<std::size_t>(
                        std::count(program.kind.begin(), program.kind.end(), OpKind::gemm)));

  const auto late_host = [](RankId, const Program& of, OpId op) {
    OpTrouble made;
    if (of.name(op) == "mlp_down") made.late = std::chrono::microseconds{50};
    return made;
  };
  const Waterfall gaps = make_waterfall(replay(small.forecast, late_host).run, small.record);
  REQUIRE_FALSE(gaps.parts.empty());
  const WaterfallItem& item = gaps.parts.front().items.front();
  REQUIRE_FALSE(item.ops.empty());
  CHECK(program.name(OpId{item.ops.front()}) == "mlp_down");
}

TEST_CASE("a trace of another job is said to be one") {
  const Small small;
  TracedRun run = replay(small.forecast, no_trouble).run;
  run.world_size = 64;
  for (RunRank& rank : run.ranks)
    for (Product& product : rank.products)
      product.k += 1;
  const Waterfall found = make_waterfall(run, small.record);
  REQUIRE(found.differences.size() >= 3);
  CHECK(found.differences[0] == "the trace is of a job of 64 ranks, the scenario of 2");
  CHECK(found.differences[1].find("products of shapes that the forecast does not have are 100 %") ==
        0);
  const std::string table = waterfall_table(found, false);
  CHECK(table.find("NOT the same job") < table.find("measured"));
}

TEST_CASE("an explanation with a forecast has the waterfall in every form") {
  const Small small;
  const TracedRun run = replay(small.forecast, slower_products).run;
  const Explanation e = explain(run, &small.record);
  REQUIRE(e.waterfall);
  CHECK(explanation_table(e, false).find("The largest causes") != std::string::npos);
  CHECK(explanation_json(e).find("\"cause\": \"products\"") != std::string::npos);
  CHECK(explanation_csv(e).find("waterfall,measured,,1,") != std::string::npos);
  CHECK(explanation_markdown(e).find("matrix products slower") != std::string::npos);
}

TEST_CASE("some ranks of a forecast, also one that it does not have") {
  const Record record = simulated_record(small_scenario(), {RankId{1}, RankId{3}});
  REQUIRE(record.tracks.size() == 1);
  CHECK(record.tracks[0].rank == RankId{1});
  CHECK(record.world_size == 2);
}

TEST_CASE("a forecast without a step is refused") {
  const Small small;
  CHECK_THROWS_AS(make_waterfall(replay(small.forecast, no_trouble).run, Record{}), InputError);
}

TEST_CASE("a trace of another GPU than the scenario's is not the same job") {
  const auto device = [](const char* file) {
    return load_device(source_dir() + "/topologies/devices/" + file);
  };
  const TracedDevice traced{.name = "NVIDIA H100 80GB HBM3"};
  CHECK(device_difference(traced, device("h200_sxm.yaml")) ==
        "the trace is of 'NVIDIA H100 80GB HBM3' (H100 SXM), the scenario of H200 SXM");
  CHECK(device_difference(traced, device("h100_sxm.yaml")).empty());
  CHECK(device_difference({.name = "CPU"}, device("h100_sxm.yaml")).empty());
}

}  // namespace
