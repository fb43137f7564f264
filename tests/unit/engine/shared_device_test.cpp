// Ranks on cores: the thread that runs the kernels also moves the messages.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "sim/calibration/fit.hpp"
#include "sim/engine/simulate.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/temporary.hpp"
#include "tests/unit/engine/hand_plan.hpp"

namespace sim {
namespace {

// Four cores that communication holds `share` of; 10 GB/s of shared memory, 2 us per message.
Cluster cores(double share) {
  DeviceCalibration core;
  core.device = host_base_device();
  core.device.communication_share = share;
  const auto device = test::temporary_path("core.yaml"), file = test::temporary_path("cores.yaml");
  std::ofstream{device} << device_yaml(core, {});
  std::ofstream{file} << "name: cores\ndevice: " << device.string() << R"(
nodes: 1
node:
  kind: shared_memory
  gpus: 4
  memory: {bandwidth: 10 GB/s, latency: 2 us}
fabric: {kind: none}
network: {cpu_vendor: intel, overhead: 0 us}
sources: [test]
)";
  Cluster cluster = Cluster::load(file.string());
  std::filesystem::remove(device);
  std::filesystem::remove(file);
  return cluster;
}

constexpr Bytes gradients = 4_MiB;

// Alone is one operator alone.
struct Alone {
  explicit Alone(const Cluster& at, const Plan& plan) : cluster{at}, program{plan.programs[0]} {}
  Duration kernel(OpId op) const {
    return kernel_cost(program.kernels[program.work[op.value]], cluster.device()).time;
  }
  CollectiveCost collective(std::initializer_list<GpuId> ranks) const {
    return collective_cost(cluster, group_shape(cluster, std::vector<GpuId>{ranks}),
                           program.collectives[0], {});
  }
  const Cluster& cluster;
  const Program& program;
};

struct Run {
  explicit Run(const Plan& plan, const Cluster& cluster)
      : simulation{simulate(plan, cluster, {.graphs = true})} {}
  const Span& span(OpId op) const { return simulation.timeline.tracks[0].spans[op.value]; }
  TimePoint end(OpId op) const { return span(op).end; }
  Simulation simulation;
};

HandProgram fp32_program() {
  HandProgram program;
  program.dtype = DType::fp32;
  return program;
}

}  // namespace

TEST_CASE("a kernel stands still while its core moves messages", "[engine][shared]") {
  // During the collective's latency L the core is free; during its transfer T the kernel K does not
  // advance at all: K + T, wherever in the kernel that is.
  const Cluster cluster = cores(1);
  HandProgram program = fp32_program();
  const OpId reduce = program.collective(CollectiveKind::all_reduce, gradients, GroupRole::data);
  const OpId work = program.gemm(1024);
  const Plan plan = hand_plan({program.program}, 1, 2);
  const Alone alone{cluster, plan};
  const CollectiveCost cost = alone.collective({{0}, {1}});
  REQUIRE(cost.latency > Duration{});
  REQUIRE(alone.kernel(work) > cost.latency);
  const Run run{plan, cluster};
  CHECK(run.end(reduce) == TimePoint{} + cost.latency + cost.transfer);
  CHECK(run.end(work) == TimePoint{} + alone.kernel(work) + cost.transfer);
}

TEST_CASE("a kernel goes on with the share of the device that communication leaves",
          "[engine][shared]") {
  // At share c the kernel loses c of the transfer, unless the memory that both want leaves less.
  const double share = GENERATE(0.0, 0.25, 0.5, 0.9);
  CAPTURE(share);
  const Cluster cluster = cores(share);
  HandProgram program = fp32_program();
  static_cast<void>(program.collective(CollectiveKind::all_reduce, gradients, GroupRole::data));
  const OpId work = program.gemm(1024);
  const Plan plan = hand_plan({program.program}, 1, 2);
  const Alone alone{cluster, plan};
  const CollectiveCost cost = alone.collective({{0}, {1}});
  const KernelCost kernel = kernel_cost(plan.programs[0].kernels[0], cluster.device());
  const double memory = cluster.device().memory_bandwidth.in_bytes_per_second() /
                        (kernel.memory + cost.memory).in_bytes_per_second();
  const double speed = std::min({1.0, 1 - share, memory});
  const double transfer = to_seconds(cost.transfer);
  REQUIRE(kernel.sm_share == 1);
  REQUIRE(to_seconds(kernel.time) > to_seconds(cost.latency) + transfer);
  const Run run{plan, cluster};
  CHECK_THAT(to_seconds(run.end(work)),
             WithinRel(to_seconds(kernel.time) + transfer * (1 - speed), 1e-3));
}

TEST_CASE("a kernel on a communication stream holds the core", "[engine][shared]") {
  // The cast C and the product K start together; the core does the cast first: K + C in all. On a
  // device that says nothing of sharing, both run beside each other.
  HandProgram program = fp32_program();
  const OpId cast = program.kernel_on(Stream::data_comm, 1_MiB);
  const OpId work = program.gemm(512);
  const Plan plan = hand_plan({program.program}, 1, 1);
  const Cluster core = cores(1);
  const Alone alone{core, plan};
  const Run run{plan, core};
  CHECK(run.end(cast) == TimePoint{} + alone.kernel(cast));
  CHECK(run.end(work) == TimePoint{} + alone.kernel(work) + alone.kernel(cast));

  const Cluster gpu = Cluster::load(sim::test::source_dir() + "/topologies/single-h200.yaml");
  const Run beside{plan, gpu};
  CHECK(beside.end(work) < TimePoint{} + Alone{gpu, plan}.kernel(work) * 2);
  CHECK(beside.span(work).begin == beside.span(cast).begin);
}

TEST_CASE("a kernel that becomes ready in the middle of a transfer waits for its end",
          "[engine][shared]") {
  // The cast C ends while the transfer is under way (L < C < L + T), and the kernel behind it needs
  // the core that the transfer holds: it is issued at C and ends at L + T + K.
  const Cluster cluster = cores(1);
  HandProgram program = fp32_program();
  const OpId reduce = program.collective(CollectiveKind::all_reduce, gradients, GroupRole::data);
  const OpId cast = program.kernel_on(Stream::tensor_comm, 262144_B);
  const OpId work = program.gemm(256, {cast});
  const Plan plan = hand_plan({program.program}, 1, 2);
  const Alone alone{cluster, plan};
  const CollectiveCost cost = alone.collective({{0}, {1}});
  REQUIRE(alone.kernel(cast) > cost.latency);
  REQUIRE(alone.kernel(cast) < cost.latency + cost.transfer);
  const Run run{plan, cluster};
  CHECK(run.span(work).begin == run.end(cast));
  CHECK(run.end(reduce) == TimePoint{} + cost.latency + cost.transfer);
  CHECK(run.end(work) == run.end(reduce) + alone.kernel(work));
}

TEST_CASE("two transfers at once hold a core no more than one does", "[engine][shared]") {
  // Tensor and data collectives side by side ask for twice the core. The kernel K stands still from
  // the first transfer's start to the last one's end, and loses no more than that.
  const Cluster cluster = cores(1);
  HandProgram program = fp32_program();
  const OpId data = program.collective(CollectiveKind::all_reduce, gradients, GroupRole::data);
  const OpId tensor = program.collective(CollectiveKind::all_reduce, gradients, GroupRole::tensor);
  const OpId work = program.gemm(1024);
  const Plan plan = hand_plan({program.program}, 2, 2);
  const Alone alone{cluster, plan};
  const CollectiveCost cost = alone.collective({{0}, {1}});
  const Run run{plan, cluster};
  const TimePoint last = std::max(run.end(data), run.end(tensor));
  CHECK(last >= TimePoint{} + cost.latency + cost.transfer);
  CHECK(run.end(work) == last + alone.kernel(work) - cost.latency);
}

}  // namespace sim
