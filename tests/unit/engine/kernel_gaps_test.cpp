// The device's gaps between kernels: of issued ones, and of those that a CUDA graph replays.
#include "sim/config/change.hpp"
#include "sim/engine/simulate.hpp"
#include "tests/catch.hpp"
#include "tests/unit/engine/hand_plan.hpp"

using namespace sim;

namespace {

Duration step(bool graphs, const char* issued, const char* replayed) {
  HandProgram program;
  for (int i = 0; i < 10; ++i)
    program.gemm(4096);
  ClusterChanges changes;
  if (issued != nullptr)
    changes.device = {{"kernel_gaps.issued_us", issued}, {"kernel_gaps.replayed_us", replayed}};
  const Cluster cluster =
      Cluster::load(test::source_dir() + std::string{"/topologies/dgx-h200.yaml"}, 1, changes);
  SimulationOptions options = no_host();
  options.graphs = graphs;
  options.free_host = true;
  return simulate(hand_plan({program.program}, 1, 1), cluster, options)
      .timeline.end.time_since_epoch();
}

}  // namespace

TEST_CASE("A gap comes with every kernel", "[engine]") {
  const Duration without = step(false, nullptr, nullptr);
  CHECK(step(false, "2", "-1.5") - without == 10 * std::chrono::microseconds{2});
  CHECK(step(true, "2", "-1.5") - without == -10 * std::chrono::nanoseconds{1500});
}

TEST_CASE("A kernel takes no less than nothing", "[engine]") {
  CHECK(step(true, "0", "-1000") == Duration{});
}
