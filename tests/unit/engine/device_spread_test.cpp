#include "sim/options/device_spread.hpp"

#include <string>

#include "sim/engine/simulate.hpp"
#include "tests/catch.hpp"
#include "tests/unit/engine/hand_plan.hpp"

namespace sim {

TEST_CASE("one device is as fast as the average", "[engine]") {
  CHECK(slowest_of(1, 0.015) == 1);
  CHECK(slowest_of(4096, 0) == 1);
}

// Expected maxima of n standard normals: n = 2 is 1 / sqrt(pi); the others as tabulated (Harter
// 1961, Expected values of normal order statistics; Tippett 1925 for 1000).
TEST_CASE("the slowest of many is the expected maximum of normals behind", "[engine]") {
  const auto maximum = [](int devices) { return slowest_of(devices, 1) - 1; };
  CHECK_THAT(maximum(2), WithinRel(0.56419, 1e-5));
  CHECK_THAT(maximum(10), WithinRel(1.53875, 1e-5));
  CHECK_THAT(maximum(100), WithinRel(2.50759, 1e-5));
  CHECK_THAT(maximum(1000), WithinRel(3.24144, 1e-5));
  CHECK(maximum(1 << 20) > maximum(1 << 19));
  CHECK_THAT(slowest_of(10, 0.015), WithinRel(1 + 0.015 * 1.53875, 1e-7));
}

// A product waits for the slowest device; what only moves memory does not depend on the clock.
TEST_CASE("products run at the speed of the slowest device, memory-bound kernels do not",
          "[engine]") {
  const Cluster cluster = load_cluster("dgx-h100", 1);
  HandProgram program;
  program.gemm(8192);
  program.stream_bytes(1_GiB);
  const Plan plan = hand_plan({program.program}, 1, 8);
  const auto span = [&](double spread, std::size_t op) {
    const Simulation it = simulate(plan, cluster, {.graphs = true, .device_spread = spread});
    const Span& of = it.timeline.tracks[0].spans[op];
    return to_seconds(of.end - of.begin);
  };
  CHECK_THAT(span(0.015, 0) / span(0, 0), WithinRel(slowest_of(8, 0.015), 1e-6));
  CHECK(span(0.015, 1) == span(0, 1));
}

}  // namespace sim
