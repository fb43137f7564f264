// Tiles and waves: closed forms on round shapes, and the laws that hold for every shape.
#include <cmath>

#include "sim/base/input_error.hpp"
#include "sim/base/random.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/unit/cost/round_device.hpp"

namespace sim {
namespace {

TEST_CASE("ten tiles on ten SMs are one wave", "[cost]") {
  // 1280 x 256 is ten tiles of 128 x 256 (or 256 x 128): one wave of 2 * 128 * 256 * 1000 FLOPs at
  // 10 TFLOP/s per SM is 6.5536 us. All other tilings take longer or as long.
  const GemmTiling tiling = gemm_tiling(product(1280, 256, 1000), round_device());
  CHECK(tiling.tiles == 10);
  CHECK(tiling.waves == 1);
  CHECK(tiling.split_k == 1);
  CHECK_THAT(tiling.seconds, WithinRel(6.5536e-6, 1e-12));
}

TEST_CASE("an eleventh tile costs a second wave where no smaller tile helps", "[cost]") {
  // Tiles of one size only differ in how they quantise. 1408 x 256 with 11 tiles of 128 x 256 would
  // take two waves, 13.1 us; 22 tiles of 128 x 128 take three of 3.2768 us: 9.8304 us. The model
  // must do at least as well, and no better than the FLOPs at full rate (7.20896 us).
  const GemmTiling tiling = gemm_tiling(product(1408, 256, 1000), round_device());
  CHECK(tiling.seconds <= 9.8304e-6 * (1 + 1e-12));
  CHECK(tiling.seconds >= 7.20896e-6 * (1 - 1e-12));
}

TEST_CASE("kernels abreast fill each other's last wave", "[cost]") {
  // 22 tiles of 128 x 128 on ten SMs: 2.2 waves of 3.2768 us beside others, three alone. Four of
  // 64 x 64 are less than the half of a wave that each of two gets at least.
  Kernel kernel = product(1408, 256, 1000);
  const double alone = gemm_tiling(kernel, round_device()).seconds;
  kernel.abreast = 2;
  CHECK_THAT(gemm_tiling(kernel, round_device()).seconds, WithinRel(7.20896e-6, 1e-12));
  CHECK(alone > 7.20896e-6 * 1.01);
  Kernel small = product(128, 128, 100);
  small.abreast = 2;
  const GemmTiling half = gemm_tiling(small, round_device());
  CHECK(half.waves == 0.5);
  CHECK_THAT(half.seconds * 2, WithinRel(2.0 * half.tile_m * half.tile_n * 100 / 10e12, 1e-12));
}

TEST_CASE("operands bound small tiles", "[cost]") {
  // 64 x 64 is one tile. 128 elements per step of K, 2 bytes each, at 1 GB/s: 256 ns a step.
  Device device = round_device();
  device.operand_feed_sm = Bandwidth::bytes_per_second(1e9);
  const GemmTiling tiling = gemm_tiling(product(64, 64, 100), device);
  CHECK(tiling.tile_m == 64);
  CHECK(tiling.tile_n == 64);
  CHECK_THAT(tiling.seconds, WithinRel(256e-9 * 100, 1e-12));
}

TEST_CASE("a long K on few tiles is split over the idle SMs", "[cost]") {
  // One 64 x 64 tile, K = 8192: alone 2*64*64*8192 / 10 TFLOP/s = 6.7 us. Eight ways: 0.84 us and
  // 0.5 us for adding up (additions over a bandwidth without limit are free).
  Device device = round_device();
  device.memory_kernels.fixed = std::chrono::nanoseconds(500);
  const GemmTiling tiling = gemm_tiling(product(64, 64, 8192), device);
  CHECK(tiling.split_k == 8);
  CHECK(tiling.waves == 1);
  CHECK_THAT(tiling.seconds, WithinRel(2.0 * 64 * 64 * 1024 / 10e12 + 500e-9, 1e-12));
}

TEST_CASE("the ramp adds to K", "[cost]") {
  Device device = round_device();
  device.gemm[static_cast<std::size_t>(DType::bf16)]->ramp_k = 250;
  const double with = gemm_tiling(product(1280, 256, 1000), device).seconds;
  const double without = gemm_tiling(product(1280, 256, 1250), round_device()).seconds;
  CHECK_THAT(with, WithinRel(without, 1e-12));
}

TEST_CASE("tiles of products that give gradients run at their share of the others' rate",
          "[cost]") {
  Device device = round_device();
  device.gemm[static_cast<std::size_t>(DType::bf16)]->gradient_share = 0.5;
  Kernel kernel = product(1280, 256, 1000);
  CHECK_THAT(gemm_tiling(kernel, device).seconds, WithinRel(6.5536e-6, 1e-12));
  kernel.part = AttentionPart::backward;
  CHECK_THAT(gemm_tiling(kernel, device).seconds, WithinRel(2 * 6.5536e-6, 1e-12));
  CHECK_THAT(gemm_tiling(kernel, round_device()).seconds, WithinRel(6.5536e-6, 1e-12));
  // Scales of blocks have shares of their own, of any product.
  device.gemm[static_cast<std::size_t>(DType::bf16)]->block_share = 0.8;
  device.gemm[static_cast<std::size_t>(DType::bf16)]->row_share = 0.4;
  kernel.scales = ProductScales::blocks;
  CHECK_THAT(gemm_tiling(kernel, device).seconds, WithinRel(6.5536e-6 / 0.8, 1e-12));
  kernel.scales = ProductScales::rows;
  CHECK_THAT(gemm_tiling(kernel, device).seconds, WithinRel(6.5536e-6 / 0.4, 1e-12));
  device.gemm[static_cast<std::size_t>(DType::bf16)]->micro_share = 0.9;
  kernel.scales = ProductScales::micro;
  CHECK_THAT(gemm_tiling(kernel, device).seconds, WithinRel(6.5536e-6 / 0.9, 1e-12));
}

TEST_CASE("experts in one kernel take tiles of 128 x 256 in pairs, in whole waves", "[cost]") {
  // Ten experts of 300 rows: 512 each in clusters, 40 blocks of 256 columns on ten SMs: 4 waves of
  // (1000 + 24) steps at half of 10 TFLOP/s per SM, and a block turns to another expert 4 times.
  Device device = round_device();
  device.grouped_rows = GroupedModel{.attained = 0.5,
                                     .ramp_k = 24,
                                     .per_group = std::chrono::microseconds(3),
                                     .fixed = std::chrono::microseconds(7)};
  Kernel kernel = product(300, 256, 1000);
  kernel.batch = 10;
  const Duration apart = kernel_cost(kernel, device).time;
  kernel.grouping = Grouping::rows;
  const double tiles = 4 * 1024 * 2.0 * 128 * 256 / 5e12 + 4 * 3e-6;
  const double power = 2.0 * 300 * 256 * 1000 * 10 / 100e12;
  const double memory = (300 * 1000 + 1000 * 256 + 300 * 256) * 2.0 * 10 / 1e12;
  const double sum = std::pow(tiles, 4) + std::pow(power, 4) + std::pow(memory, 4);
  CHECK_THAT(to_seconds(kernel_cost(kernel, device).time),
             WithinRel(7e-6 + std::pow(sum, 0.25), 1e-6));
  CHECK_FALSE(kernel_cost(kernel, device).abreast);
  // Without a model of its own, and in 8 bits, it is forecast as a kernel for each.
  kernel.grouping = Grouping::depth;
  CHECK(kernel_cost(kernel, device).time == apart);
}

TEST_CASE("compute, memory and power overlap as the fourth root of the sum of fourth powers",
          "[cost]") {
  // m = 1280, n = 256, k = 10000 at fixed 1 us: tiles take 65.536 us (attained 1); power allows
  // half the peak: 131.072 us; operands and result are (12.8e6 + 2.56e6 + 327680) * 2 bytes at 1
  // TB/s.
  Device device = round_device();
  GemmModel& model = *device.gemm[static_cast<std::size_t>(DType::bf16)];
  model.sustained = 0.5;
  model.fixed = std::chrono::microseconds(1);
  const double bytes = (12.8e6 + 2.56e6 + 327680) * 2;
  const double a = 65.536, b = 131.072, c = bytes / 1e12 * 1e6;
  const double expected = 1 + std::pow(a * a * a * a + b * b * b * b + c * c * c * c, 0.25);
  const KernelCost cost = kernel_cost(product(1280, 256, 10000), device);
  CHECK_THAT(to_seconds(cost.time) * 1e6, WithinRel(expected, 1e-6));
  CHECK_THAT(cost.memory.in_bytes_per_second(), WithinRel(bytes / (expected * 1e-6), 1e-9));
  CHECK(cost.sm_share == 1.0);
}

TEST_CASE("results that experts' products add to stand behind them", "[cost]") {
  // Ten products of 128 x 256 are ten tiles on ten SMs: 65.536 us; ten results read and written in
  // fp32 are 2.62144 MB at 1 TB/s.
  Kernel kernel = product(128, 256, 10000);
  kernel.batch = 10;
  const std::int64_t operands = (128 * 10000 + 256 * 10000) * 10 * 2, result = 128 * 256 * 10;
  const auto seconds_with = [&](std::int64_t per_element) {
    kernel.bytes = Bytes{operands + result * per_element};
    return to_seconds(kernel_cost(kernel, round_device()).time);
  };
  // Beside each other: tiles, power, and operands of 76.8 MB with results of 0.65536 MB or none.
  const auto beside = [](double memory) {
    return std::pow(2 * std::pow(65.536e-6, 4) + std::pow(memory, 4), 0.25);
  };
  CHECK_THAT(seconds_with(2), WithinRel(beside(77.45536e-6), 1e-6));
  CHECK_THAT(seconds_with(8), WithinRel(beside(76.8e-6) + 2.62144e-6, 1e-6));
  // The results of a single product go beside it.
  kernel.batch = 1;
  kernel.m = 1280;
  kernel.bytes = Bytes{(1280 * 10000 + 256 * 10000) * 2 + 1280 * 256 * 2};
  const double one = to_seconds(kernel_cost(kernel, round_device()).time);
  kernel.bytes = Bytes{(1280 * 10000 + 256 * 10000) * 2 + 1280 * 256 * 8};
  CHECK(to_seconds(kernel_cost(kernel, round_device()).time) - one < 2e-6);
}

TEST_CASE("an 8-bit product of experts writes 16 bits, and adds nothing", "[cost]") {
  Device device = round_device();
  device.gemm[static_cast<std::size_t>(DType::fp8)] =
      device.gemm[static_cast<std::size_t>(DType::bf16)];
  Kernel kernel = product(128, 256, 10000, DType::fp8);
  kernel.batch = 10;
  const std::int64_t operands = (128 * 10000 + 256 * 10000) * 10;
  kernel.bytes = Bytes{operands + 128 * 256 * 10 * 2};
  const double half = to_seconds(kernel_cost(kernel, device).time);
  kernel.bytes = Bytes{operands};
  CHECK(to_seconds(kernel_cost(kernel, device).time) == Approx(half).epsilon(1e-3));
}

TEST_CASE("fewer tiles than SMs leave SMs free", "[cost]") {
  // K of 256 is too short to be split.
  // One tile of 128 x 64 or two of 64 x 64 (half the time, and so chosen): two of ten SMs.
  CHECK(kernel_cost(product(128, 64, 256), round_device()).sm_share == 0.2);
}

TEST_CASE("a dtype that the device lacks is refused by name", "[cost]") {
  REQUIRE_THROWS_WITH(kernel_cost(product(64, 64, 64, DType::fp8), round_device()),
                      "round: error: this device cannot compute in fp8; allowed: fp32, bf16");
}

TEST_CASE("a product without extent is a bug of the caller", "[cost]") {
  CHECK_THROWS_AS(kernel_cost(product(0, 64, 64), round_device()), std::logic_error);
}

// Laws on random shapes, on a fitted device.
struct Shapes {
  explicit Shapes(std::uint64_t seed) : state{seed} {}
  std::int64_t extent(std::int64_t most) {
    state = mix64(state);
    return 1 + static_cast<std::int64_t>(state % static_cast<std::uint64_t>(most));
  }
  std::uint64_t state;
};

TEST_CASE("a larger product is never faster, in any dimension, under either load", "[cost]") {
  const Device device = load_device(sim::test::source_dir() + "/topologies/devices/h200_sxm.yaml");
  Shapes shapes{20261121};
  for (int i = 0; i < 3000; ++i) {
    const Kernel small = product(shapes.extent(9000), shapes.extent(9000), shapes.extent(9000));
    Kernel large = small;
    std::int64_t& grown = i % 3 == 0 ? large.m : (i % 3 == 1 ? large.n : large.k);
    grown += shapes.extent(500);
    CAPTURE(i, small.m, small.n, small.k, large.m, large.n, large.k);
    CHECK(kernel_cost(large, device).time >= kernel_cost(small, device).time);
    CHECK(gemm_tiling(large, device).seconds >= gemm_tiling(small, device).seconds);
  }
}

TEST_CASE("more of the SMs of a device are never slower", "[cost]") {
  const Device device = load_device(sim::test::source_dir() + "/topologies/devices/h200_sxm.yaml");
  Shapes shapes{7};
  for (int i = 0; i < 1000; ++i) {
    const Kernel kernel = product(shapes.extent(9000), shapes.extent(9000), shapes.extent(9000));
    const int few = static_cast<int>(shapes.extent(131));
    const int more = few + static_cast<int>(shapes.extent(132 - few));
    CAPTURE(i, kernel.m, kernel.n, kernel.k, few, more);
    CHECK(kernel_cost(kernel, restricted_to_sms(device, more)).time <=
          kernel_cost(kernel, restricted_to_sms(device, few)).time);
  }
}

TEST_CASE("no product beats the peak, the memory or uses no SM", "[cost]") {
  const Device device = load_device(sim::test::source_dir() + "/topologies/devices/h200_sxm.yaml");
  Shapes shapes{99};
  for (int i = 0; i < 2000; ++i) {
    const Kernel kernel = product(shapes.extent(20000), shapes.extent(20000), shapes.extent(20000));
    const KernelCost cost = kernel_cost(kernel, device);
    const double flops = 2.0 * static_cast<double>(kernel.m) * static_cast<double>(kernel.n) *
                         static_cast<double>(kernel.k);
    CAPTURE(i, kernel.m, kernel.n, kernel.k);
    CHECK(flops / to_seconds(cost.time) <= device.peak(DType::bf16).in_flops_per_second());
    CHECK(cost.memory <= device.memory_bandwidth);
    CHECK(cost.sm_share > 0);
    CHECK(cost.sm_share <= 1);
  }
}

// Tiles of 128 x 256 on ten SMs: experts without a row have none, and each pays for its own edge.
TEST_CASE("products of experts with unequal rows have tiles of their own", "[cost]") {
  Kernel kernel = product(1280, 256, 1000);
  kernel.batch = 4;
  const double even = gemm_tiling(kernel, round_device()).tiles;
  kernel.uneven = {1280, 1280, 1280, 1280};
  CHECK(gemm_tiling(kernel, round_device()).tiles == even);
  kernel.uneven = {5120, 0, 0, 0};
  CHECK(gemm_tiling(kernel, round_device()).tiles == even);
  kernel.uneven = {5117, 1, 1, 1};
  CHECK(gemm_tiling(kernel, round_device()).tiles > even);
  // 20 products in 8 parts, of 2 or 3.
  std::int64_t all = 0;
  for (std::size_t part = 0; part < kernel.uneven.size(); ++part)
    all += uneven_part(20, part);
  CHECK(all == 20);
  CHECK(uneven_part(3, 2) == 1);
  CHECK(uneven_part(3, 3) == 0);
}

}  // namespace
}  // namespace sim
