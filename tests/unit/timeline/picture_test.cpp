#include "sim/timeline/picture.hpp"

#include "tests/catch.hpp"
#include "tests/unit/engine/hand_plan.hpp"

namespace sim {
namespace {

TimePoint at(Duration time) {
  return TimePoint{} + time;
}

}  // namespace

TEST_CASE("a picture shows each kernel where and as long as it ran", "[timeline]") {
  // 1 ms over 1,000 columns: a kernel from 200 us to 300 us is a run of 100 columns from column
  // 200.
  HandProgram program;
  const OpId kernel = program.gemm(64);
  const Plan plan = hand_plan({program.program}, 1, 1);
  Timeline timeline;
  timeline.end = at(1ms);
  timeline.tracks.push_back({RankId{0}, 4, {{kernel, at(200us), at(200us), at(300us)}}});
  const std::string svg = to_svg(plan, timeline, {.title = "a < b", .ranks = {}});
  REQUIRE(svg.find("M310 52h100v12h-100z") != std::string::npos);
  REQUIRE(svg.find("stage 0 x4") != std::string::npos);
  REQUIRE(svg.find("a &lt; b") != std::string::npos);
  REQUIRE(svg.find("1 ms") != std::string::npos);
}

TEST_CASE("a picture of a rank without a track is refused", "[timeline]") {
  HandProgram program;
  program.gemm(64);
  const Plan plan = hand_plan({program.program}, 1, 1);
  REQUIRE_THROWS_WITH(to_svg(plan, Timeline{}, {.title = "", .ranks = {RankId{7}}}),
                      "the timeline has no track of rank 7");
}

}  // namespace sim
