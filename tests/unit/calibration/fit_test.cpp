// Fits find the parameters that made the times, also among outliers, and files read back.
#include "sim/calibration/fit.hpp"

#include <cmath>

#include "sim/base/random.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"

using namespace sim;
using namespace std::chrono_literals;

namespace {

Kernel product(std::int64_t m, std::int64_t n, std::int64_t k) {
  Kernel kernel;
  kernel.kind = OpKind::gemm;
  kernel.dtype = DType::fp32;
  kernel.m = m, kernel.n = n, kernel.k = k;
  kernel.bytes = Bytes{(m * k + k * n + m * n) * 4};
  return kernel;
}
Kernel streaming(OpKind kind, std::int64_t bytes, AttentionPart part = AttentionPart::forward) {
  Kernel kernel;
  kernel.kind = kind;
  kernel.dtype = DType::fp32;
  kernel.part = part;
  kernel.bytes = Bytes{bytes};
  return kernel;
}

Device true_core() {
  Device device = host_base_device();
  GemmModel& model = *device.gemm[static_cast<std::size_t>(DType::fp32)];
  model.attained = 0.8;
  model.ramp_k = 40;
  model.fixed = 3us;
  device.memory_kernels.elementwise = 0.5;
  device.memory_kernels.optimizer = 0.25;
  device.memory_kernels.fixed = 2us;
  return device;
}

MeasuredMachine measured_on(const Device& device) {
  MeasuredMachine machine{.host = "alpha", .device = "Core Z", .date = "2026-01-02"};
  for (const std::int64_t size : {64, 128, 192, 256, 384, 512, 768, 1024})
    for (const std::int64_t depth : {64, 256, 1024})
      machine.kernels.push_back({.kernel = product(size, size, depth)});
  for (std::int64_t bytes = 1 << 14; bytes <= 1 << 26; bytes *= 4) {
    machine.kernels.push_back({.kernel = streaming(OpKind::elementwise, bytes)});
    machine.kernels.push_back({.kernel = streaming(OpKind::optimizer, bytes)});
  }
  for (MeasuredKernel& point : machine.kernels)
    point.time = formula_cost(point.kernel, device).time;
  return machine;
}

double worst_miss(const std::vector<FitResidual>& residuals) {
  double worst = 0;
  for (const FitResidual& row : residuals)
    worst = std::max(worst, row.error.worst);
  return worst;
}

}  // namespace

TEST_CASE("a fit finds what made the times", "[calibration]") {
  const MeasuredMachine machine = measured_on(true_core());
  const DeviceCalibration fit = calibrate_device(host_base_device(), machine);
  CHECK(worst_miss(fit.residuals) < 0.05);
  for (const FitResidual& row : fit.residuals)
    CHECK(row.error.median < 0.01);
  // A shape that no fit saw.
  Device formulas = fit.device;
  formulas.measured_kernels.clear();
  const Kernel unseen = product(640, 320, 512);
  CHECK_THAT(to_seconds(kernel_cost(unseen, formulas).time),
             WithinRel(to_seconds(kernel_cost(unseen, true_core()).time), 0.03));
}

TEST_CASE("outliers do not move a fit", "[calibration]") {
  MeasuredMachine machine = measured_on(true_core());
  for (std::size_t i = 0; i < machine.kernels.size(); i += 9)
    machine.kernels[i].time *= 5;
  const DeviceCalibration fit = calibrate_device(host_base_device(), machine);
  for (const FitResidual& row : fit.residuals)
    CHECK(row.error.median < 0.05);
}

TEST_CASE("a kernel that was measured takes its measured time, and only in a step",
          "[calibration]") {
  MeasuredMachine machine = measured_on(true_core());
  machine.kernels.push_back({.kernel = product(100, 100, 100), .time = 777us});
  const Device device = calibrate_device(host_base_device(), machine).device;
  CHECK(kernel_cost(product(100, 100, 100), device).time == 777us);
  CHECK(kernel_cost(product(100, 100, 100), device, Load::loop).time != 777us);
  CHECK(kernel_cost(product(100, 100, 101), device).time != 777us);
}

TEST_CASE("a device file reads back to the same device", "[calibration]") {
  MeasuredMachine machine = measured_on(true_core());
  machine.interference.push_back({.kernel = product(512, 512, 512),
                                  .kernels_alone = 10ms,
                                  .kernels_beside = 14ms,
                                  .collective = {},
                                  .collective_beside = 5ms});
  machine.memory = Bytes{std::int64_t{8} << 30};
  machine.versions = {"Eigen 3.4", "a \"quoted\" \\ one"};
  const DeviceCalibration fit = calibrate_device(host_base_device(), machine);
  const Device read = parse_device(device_yaml(fit, machine), "device.yaml");
  CHECK(read.name == "Core Z of alpha");
  CHECK(read.generation == Generation::cpu);
  // 4 ms of the 5 ms that the collective took were lost to it.
  CHECK_THAT(read.communication_share.value(), WithinRel(0.8, 1e-6));
  CHECK(read.memory == Bytes{std::int64_t{8} << 30});
  REQUIRE(read.measured_kernels.size() == fit.device.measured_kernels.size());
  for (std::size_t i = 0; i < read.measured_kernels.size(); ++i) {
    CHECK(read.measured_kernels[i].shape == fit.device.measured_kernels[i].shape);
    CHECK(read.measured_kernels[i].time == fit.device.measured_kernels[i].time);
  }
  const Kernel unseen = product(640, 320, 512);
  CHECK_THAT(to_seconds(kernel_cost(unseen, read).time),
             WithinRel(to_seconds(kernel_cost(unseen, fit.device).time), 1e-4));
  CHECK(read.origin.find("calibrated 2026-01-02 on alpha") != std::string::npos);
  CHECK(read.origin.find("memory_kernels.optimizer") != std::string::npos);
}

TEST_CASE("each implementation of attention is fitted by itself", "[calibration]") {
  // FlashAttention 1 at half the rate of the fastest, on a base that knows of the fastest only.
  Device truth = true_core();
  truth.attention.forward_attained = 0.4;
  truth.flash_attention_1 = truth.attention;
  truth.flash_attention_1->forward_attained = 0.2;
  MeasuredMachine machine;
  for (const AttentionKernel implementation : {AttentionKernel::flash, AttentionKernel::flash_1})
    for (const std::int64_t tokens : {256, 384, 512, 1024, 2048, 4096}) {
      Kernel kernel;
      kernel.kind = OpKind::attention;
      kernel.dtype = DType::fp32;
      kernel.attention = implementation;
      kernel.m = kernel.n = tokens;
      kernel.k = 64;
      kernel.heads = kernel.kv_heads = 4;
      machine.kernels.push_back({.kernel = kernel, .time = formula_cost(kernel, truth).time});
    }
  const DeviceCalibration fit = calibrate_device(host_base_device(), machine);
  const Device read = parse_device(device_yaml(fit, machine), "d.yaml");
  REQUIRE(read.flash_attention_1);
  CHECK_THAT(read.flash_attention_1->forward_attained / read.attention.forward_attained,
             WithinRel(0.5, 0.05));
  CHECK_FALSE(read.flash_attention_2);
  CHECK(read.measured_kernels.size() == machine.kernels.size());
}

TEST_CASE("points without shape or time are refused", "[calibration]") {
  MeasuredMachine machine;
  machine.kernels.push_back({.kernel = product(0, 1, 1), .time = 1us, .source = "x.csv"});
  CHECK_THROWS_WITH(calibrate_device(host_base_device(), machine),
                    "x.csv: error: a measured gemm kernel has no shape or no time");
}

TEST_CASE("Gaps between kernels go into the device file, those that cannot be do not",
          "[calibration]") {
  MeasuredMachine machine = measured_on(true_core());
  machine.gaps = MeasuredGaps{.issued = 0.25e-6, .replayed = -1.5e-6};
  const DeviceCalibration fitted = calibrate_device(host_base_device(), machine);
  const Device read = parse_device(device_yaml(fitted, machine), "device.yaml");
  CHECK(read.issued_gap == 250ns);
  CHECK(read.replayed_gap == -1500ns);
  machine.gaps = MeasuredGaps{.issued = 0, .replayed = 2e-3};
  CHECK(calibrate_device(host_base_device(), machine).device.replayed_gap == 0ns);
}

TEST_CASE("A kernel that beats the memory did not do its work, and is left out", "[calibration]") {
  Device base = load_device(test::source_dir() + std::string{"/topologies/devices/h200_sxm.yaml"});
  MeasuredMachine machine{.host = "alpha", .device = base.name, .date = "2026-01-02"};
  Kernel optimizer = streaming(OpKind::optimizer, std::int64_t{10'646'138'880});
  machine.kernels.push_back({.kernel = optimizer, .time = 127us});
  Kernel other = streaming(OpKind::optimizer, std::int64_t{10'952'332'800});
  machine.kernels.push_back({.kernel = other, .time = 2936us});
  const DeviceCalibration fitted = calibrate_device(base, machine);
  CHECK(fitted.device.measured_kernels.size() == 1);
  REQUIRE(!fitted.notes.empty());
  CHECK(fitted.notes[0].find("faster than the memory") != std::string::npos);
}
