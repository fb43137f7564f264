#include "sim/explain/tables/roofline.hpp"

#include <nlohmann/json.hpp>

#include "sim/explain/explanation.hpp"
#include "tests/catch.hpp"
#include "tests/unit/explain/run_maker.hpp"

namespace {

using namespace sim;
using namespace sim::test;

Kernel bf16_product(std::int64_t size) {
  Kernel kernel;
  kernel.kind = OpKind::gemm;
  kernel.m = kernel.n = kernel.k = size;
  const auto s = static_cast<double>(size);
  kernel.flops = Flops{2 * s * s * s};
  kernel.bytes = Bytes{3 * size * size * 2};
  return kernel;
}

Kernel norm_of(std::int64_t bytes) {
  Kernel kernel;
  kernel.kind = OpKind::norm;
  kernel.bytes = Bytes{bytes};
  return kernel;
}

// A product in two kernels of one operator, the same product at once, a small one, and a norm.
TracedRun shaped_run() {
  RunMaker make;
  make.rank(0);
  make.host("aten::mm", HostSpan::What::op, 0, 1);
  make.kernel("gemm<float>", OpKind::gemm, 0, 400).work(bf16_product(4096)).issued_by(0);
  make.kernel("splitKreduce", OpKind::gemm, 400, 100).work(bf16_product(4096)).issued_by(0);
  make.kernel("gemm<float>", OpKind::gemm, 500, 300).work(bf16_product(4096));
  make.kernel("gemm<float>", OpKind::gemm, 800, 10).work(bf16_product(128));
  make.kernel("layer_norm", OpKind::norm, 810, 90).work(norm_of(100'000'000));
  make.kernel("unknown", OpKind::elementwise, 900, 100);
  TracedRun run = make.run();
  run.device.name = "NVIDIA H100 80GB HBM3";
  return run;
}

const RooflinePoint* found(const Roofline& roofline, const std::string& name,
                           const std::string& shape) {
  for (const RooflinePoint& point : roofline.points)
    if (point.name == name && point.shape == shape) return &point;
  return nullptr;
}

TEST_CASE("kernels of one operator do its work once, in the time of all") {
  const Roofline roofline = explain(shaped_run()).roofline;
  CHECK(roofline.points.size() == 3);  // what has no known work is not there
  const RooflinePoint* const large = found(roofline, "gemm", "4096x4096x4096");
  REQUIRE(large);
  CHECK(large->count == 2);
  CHECK(large->seconds == Approx(800e-6));
  CHECK(large->flops == Approx(2 * 2.0 * 4096 * 4096 * 4096));
  CHECK(large->intensity() == Approx(4096 / 3.0));
  CHECK(large->flop_rate() == Approx(4.0 * 4096 * 4096 * 4096 / 800e-6));
}

TEST_CASE("points are held against the lower of the device's lines") {
  const Roofline roofline = explain(shaped_run()).roofline;
  CHECK_FALSE(roofline.device.empty());
  REQUIRE(roofline.compute.size() == 1);
  CHECK(roofline.compute[0].dtype == DType::bf16);
  const double peak = roofline.compute[0].peak.in_flops_per_second();
  const double memory = roofline.memory.in_bytes_per_second();
  const RooflinePoint* const large = found(roofline, "gemm", "4096x4096x4096");
  const RooflinePoint* const small = found(roofline, "gemm", "128x128x128");
  const RooflinePoint* const norm = found(roofline, "layer_norm", "");
  REQUIRE(large);
  REQUIRE(small);
  REQUIRE(norm);
  CHECK_FALSE(large->memory_bound);
  CHECK(large->of_roof == Approx(large->flop_rate() / peak));
  CHECK(small->memory_bound);
  CHECK(small->of_roof == Approx(small->byte_rate() / memory));
  CHECK(norm->memory_bound);
  CHECK(norm->flops == 0);
  CHECK(norm->of_roof == Approx(100e6 / 90e-6 / memory));
}

TEST_CASE("without a known device there are points, but no lines") {
  TracedRun run = shaped_run();
  run.device.name = "some GPU";
  const Explanation e = explain(run);
  CHECK(e.roofline.device.empty());
  CHECK(e.roofline.compute.empty());
  REQUIRE(e.roofline.points.size() == 3);
  CHECK(e.roofline.points[0].of_roof == 0);
  const auto json = nlohmann::json::parse(explanation_json(e));
  CHECK(json["roofline"]["kernels"].size() == 3);
  CHECK_FALSE(json["roofline"]["kernels"][0].contains("of_roof"));
}

TEST_CASE("the device of the scenario has the lines where the trace names none") {
  TracedRun run = shaped_run();
  const std::optional<Device> device = known_device(run.device);
  REQUIRE(device);
  run.device.name.clear();
  const Roofline roofline = explain(run, nullptr, &*device).roofline;
  CHECK(roofline.device == device->name);
  CHECK(roofline.memory == device->memory_bandwidth);
}

}  // namespace
