#include "sim/scores/predict.hpp"

#include "tests/catch.hpp"

namespace {

using namespace sim;
using std::chrono::microseconds;

TEST_CASE("a scenario that cannot be read is skipped with its place and reason", "[scores]") {
  MeasuredRow row;
  row.id = "r";
  row.scenario = "/nowhere/scenario.yaml";
  const RowResult result = predict(MeasuredSet{}, row);
  REQUIRE_FALSE(result.prediction);
  REQUIRE_FALSE(result.scored());
  REQUIRE(result.skipped.find("/nowhere/scenario.yaml") != std::string::npos);
}

// Layer 1 of a program of four operators: forward [10, 25] with a gap, recompute and backward
// [40, 70]; layer 0 is not counted.
TEST_CASE("the time of a layer is the extent of its forward and of its backward pass", "[scores]") {
  Program program;
  const auto add = [&](Pass pass, std::int16_t layer) {
    program.kind.push_back(OpKind::elementwise);
    program.pass.push_back(pass);
    program.label.push_back({.name = 0, .layer = layer, .chunk = 0, .microbatch = 0});
  };
  add(Pass::forward, 0);
  add(Pass::forward, 1);
  add(Pass::forward, 1);
  add(Pass::recompute, 1);
  add(Pass::backward, 1);
  add(Pass::optimizer, 1);
  Plan plan;
  plan.programs.push_back(program);
  plan.program_of_rank = {0};
  const auto at = [](int us) { return TimePoint{microseconds{us}}; };
  const auto span = [&](std::uint32_t op, int begin, int end) {
    return Span{.op = OpId{op}, .begin = at(begin), .active = at(begin), .end = at(end)};
  };
  Timeline timeline;
  timeline.tracks.push_back({.rank = RankId{0},
                             .represents = 1,
                             .spans = {span(0, 0, 10), span(1, 10, 15), span(2, 20, 25),
                                       span(3, 40, 50), span(4, 50, 70), span(5, 70, 99)}});
  REQUIRE(layer_time(plan, timeline, 1) == microseconds{45});
  REQUIRE(layer_time(plan, timeline, 0) == microseconds{10});
  REQUIRE(layer_time(plan, timeline, 2) == Duration{});
}

}  // namespace
