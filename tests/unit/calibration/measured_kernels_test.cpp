// Every kernel that a plan emits finds its own row in a device file that lists it.
#include <map>
#include <set>
#include <string>

#include "sim/calibration/fit.hpp"
#include "sim/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/unit/plan/models.hpp"

using namespace sim;

namespace {

// Layouts that between them emit all kinds of kernels, in all dtypes and both parts.
std::vector<Plan> plans() {
  std::vector<Plan> all;
  for (int kind = 0; kind < test::transformer_kinds; ++kind) {
    Layout layout = test::layout_for(2, 2, 2, 4);
    layout.sequence_parallel = kind % 2 == 1;
    layout.reduce_dtype = DType::fp32;  // casts on the communication stream
    if (kind == 1) layout.compute_dtype = DType::fp8;
    if (kind == 2) layout.attention = AttentionKernel::flash_2;
    if (kind == 3) layout.zero_stage = 2;
    if (kind == 4) {
      layout.attention = AttentionKernel::unfused;
      layout.recompute = Recompute::selective;
    }
    all.push_back(make_plan(test::transformer(kind, 2), layout));
  }
  Layout first = test::layout_for(2, 2, 2, 4);
  first.attention = AttentionKernel::flash_1;
  all.push_back(make_plan(test::transformer(0, 2), first));
  Layout samples = test::layout_for(1, 2, 1, 2);
  samples.sequence_length = 1;
  all.push_back(make_plan(test::layer_list(2, 1000), samples));
  return all;
}

}  // namespace

TEST_CASE("every kernel of a plan is found again in a device file that lists it", "[calibration]") {
  const Device base = load_device(sim::test::source_dir() + "/topologies/devices/h200_sxm.yaml");
  // The n-th distinct shape took n us more than any formula knows of.
  std::map<KernelShape, Duration> expected;
  std::set<OpKind> kinds;
  MeasuredMachine machine;
  for (const Plan& plan : plans()) {
    for (const Program& program : plan.programs) {
      for (const Kernel& kernel : program.kernels) {
        kinds.insert(kernel.kind);
        const auto [row, added] = expected.try_emplace(shape_of(kernel));
        if (!added) continue;
        row->second = std::chrono::microseconds{10 + static_cast<int>(expected.size())};
        machine.kernels.push_back({.kernel = kernel, .time = row->second});
      }
    }
  }
  for (const OpKind kind :
       {OpKind::gemm, OpKind::attention, OpKind::norm, OpKind::elementwise, OpKind::embedding,
        OpKind::cross_entropy, OpKind::generic, OpKind::optimizer}) {
    CAPTURE(std::string{word(kind)});
    CHECK(kinds.count(kind) == 1);
  }
  const Device device =
      parse_device(device_yaml(calibrate_device(base, machine), machine), "device.yaml");
  CHECK(device.measured_kernels.size() == expected.size());
  for (const MeasuredKernel& point : machine.kernels) {
    CAPTURE(shape_of(point.kernel).kind, point.kernel.m, point.kernel.n, point.kernel.k);
    const KernelTime* row = measured_time(point.kernel, device);
    REQUIRE(row != nullptr);
    CHECK(row->time == point.time);
    CHECK(kernel_cost(point.kernel, device).time == point.time);
  }
}
