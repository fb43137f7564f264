// Kernels other than products: closed forms on a round device.
#include <algorithm>
#include <cmath>

#include "sim/base/input_error.hpp"
#include "tests/catch.hpp"
#include "tests/unit/cost/round_device.hpp"

namespace sim {
namespace {

Kernel attention(std::int64_t tokens, bool causal, AttentionPart part) {
  Kernel kernel;
  kernel.kind = OpKind::attention;
  kernel.part = part;
  kernel.causal = causal;
  kernel.m = kernel.n = tokens;
  kernel.k = 128;
  kernel.heads = kernel.kv_heads = 10;
  return kernel;
}

double microseconds(const KernelCost& cost) {
  return to_seconds(cost.time) * 1e6;
}

TEST_CASE("a streaming kernel takes its bytes over the bandwidth that its kind reaches", "[cost]") {
  // 1 GB at half, a quarter and all of 1 TB/s, after 2 us.
  const Device device = round_device();
  CHECK(kernel_cost(streaming(OpKind::elementwise, 1'000'000'000), device).time ==
        std::chrono::microseconds(2002));
  CHECK(kernel_cost(streaming(OpKind::optimizer, 1'000'000'000), device).time ==
        std::chrono::microseconds(1002));
  Kernel norm = streaming(OpKind::norm, 1'000'000'000);
  CHECK(kernel_cost(norm, device).time == std::chrono::microseconds(2002));
  norm.part = AttentionPart::backward;
  CHECK(kernel_cost(norm, device).time == std::chrono::microseconds(4002));
}

TEST_CASE("every launch of an operator pays the fixed cost", "[cost]") {
  Kernel kernel = streaming(OpKind::elementwise, 500'000'000);
  kernel.launches = 5;
  CHECK(kernel_cost(kernel, round_device()).time == std::chrono::microseconds(1000 + 5 * 2));
}

TEST_CASE("a kernel without bytes takes its launch", "[cost]") {
  const KernelCost cost = kernel_cost(streaming(OpKind::embedding, 0), round_device());
  CHECK(cost.time == std::chrono::microseconds(2));
  CHECK(cost.memory.in_bytes_per_second() == 0);
}

TEST_CASE("a streaming kernel needs the SMs that its bandwidth takes", "[cost]") {
  // 0.5 TB/s of the 10 x 1 TB/s that the SMs could move, but one whole SM at least.
  CHECK(kernel_cost(streaming(OpKind::elementwise, 1000), round_device()).sm_share == 0.1);
  Device device = round_device();
  device.memory_kernels.per_sm = Bandwidth::bytes_per_second(0.1e12);
  CHECK(kernel_cost(streaming(OpKind::elementwise, 1000), device).sm_share == 0.5);
}

TEST_CASE("too few SMs bound the bandwidth", "[cost]") {
  Device device = round_device();
  device.memory_kernels.per_sm = Bandwidth::bytes_per_second(0.1e12);
  // Two SMs at 0.1 TB/s are less than the 0.5 TB/s of the memory: 1 GB in 5 ms.
  const Kernel kernel = streaming(OpKind::elementwise, 1'000'000'000);
  CHECK(kernel_cost(kernel, restricted_to_sms(device, 2)).time == std::chrono::microseconds(5002));
}

TEST_CASE("a generic kernel is at best a large product, and bound by its FLOPs or bytes",
          "[cost]") {
  Kernel kernel = streaming(OpKind::generic, 1'000'000'000);
  kernel.flops = Flops{100e9};  // 1 ms at 100 TFLOP/s, and 2 ms for the bytes: (1 + 16 + 1)^(1/4)
  CHECK_THAT(microseconds(kernel_cost(kernel, round_device())),
             WithinRel(2.0 + 2000 * std::pow(18.0 / 16, 0.25), 1e-6));
  kernel.flops = Flops{400e9};  // 4 ms: (256 + 16 + 256)^(1/4)
  CHECK_THAT(microseconds(kernel_cost(kernel, round_device())),
             WithinRel(2.0 + 1000 * std::pow(528.0, 0.25), 1e-6));
  // Without memory traffic: 8192^3 on a device that sustains less than it attains.
  Device device = round_device();
  device.gemm[static_cast<std::size_t>(DType::bf16)]->sustained = 0.8;
  device.memory_kernels.fixed = Duration{0};
  kernel = streaming(OpKind::generic, 0);
  kernel.flops = Flops{2.0 * 8192 * 8192 * 8192};
  const double large = microseconds(kernel_cost(product(8192, 8192, 8192), device));
  CHECK_THAT(microseconds(kernel_cost(kernel, device)), WithinRel(large, 0.03));
  CHECK(microseconds(kernel_cost(kernel, device)) <= large);
}

TEST_CASE("a scan is bound by its bytes, and by the chunks of a sequence one after another",
          "[cost]") {
  Device device = round_device();
  device.memory_kernels.scan_forward = 0.5;  // of 1 TB/s: 1 GB in 2 ms
  device.memory_kernels.scan_backward = 0.25;
  Kernel kernel = streaming(OpKind::scan, 1'000'000'000);
  kernel.flops = Flops{400e9};  // 4 ms at 100 TFLOP/s: they do not count
  CHECK(kernel_cost(kernel, device).time == std::chrono::microseconds(2002));
  kernel.in_sequence = std::chrono::microseconds(300);
  CHECK(kernel_cost(kernel, device).time == std::chrono::microseconds(2302));
  kernel.part = AttentionPart::backward;
  CHECK(kernel_cost(kernel, device).time == std::chrono::microseconds(4302));
}

TEST_CASE("flash attention takes the FLOPs that FlashAttention counts", "[cost]") {
  // 10 heads of 1280 tokens are 10 blocks of 128 rows each: 10 waves of ten SMs, none partial.
  // 4 * 10 * 1280^2 * 128 = 8.388608 GFLOP at 50 TFLOP/s: 167.77216 us; causal half of it;
  // backward 2.5 times as much at 25 TFLOP/s: five times the time.
  const Device device = round_device();
  const double full = 167.77216;
  CHECK_THAT(microseconds(kernel_cost(attention(1280, false, AttentionPart::forward), device)),
             WithinRel(full, 1e-6));
  CHECK_THAT(microseconds(kernel_cost(attention(1280, true, AttentionPart::forward), device)),
             WithinRel(full / 2, 1e-6));
  CHECK_THAT(microseconds(kernel_cost(attention(1280, false, AttentionPart::backward), device)),
             WithinRel(full * 5, 1e-6));
}

TEST_CASE("flash attention in 8 bits has a gain over 16, and casts behind it", "[cost]") {
  // 640 keys per query in the mean: a gain of 1.5 * 640 / (640 + 160) = 1.2. Casts: 1 MB at 0.5
  // TB/s, and two launches of 2 us.
  Device device = round_device();
  device.attention.fp8 = AttentionModel::EightBit{
      .forward = {.gain = 1.5, .ramp_tokens = 160, .width = 0}, .backward = {.gain = 0.8}};
  Kernel kernel = attention(1280, true, AttentionPart::forward);
  const double plain = microseconds(kernel_cost(kernel, device));
  kernel.dtype = DType::fp8;
  CHECK_THAT(microseconds(kernel_cost(kernel, device)), WithinRel(plain / 1.2, 1e-6));
  kernel.beside = Bytes{1'000'000};
  kernel.launches = 3;
  CHECK_THAT(microseconds(kernel_cost(kernel, device)), WithinRel(plain / 1.2 + 2 + 4, 1e-6));
  kernel.scales = ProductScales::micro;
  CHECK_THROWS_AS(kernel_cost(kernel, device), InputError);
}

TEST_CASE("the backward pass of attention in 8 bits works on what lies before a window", "[cost]") {
  Device device = round_device();
  device.attention.fp8 =
      AttentionModel::EightBit{.forward = {.gain = 1.5}, .backward = {.gain = 1.25}};
  const auto time = [&](AttentionPart part, std::int64_t window, DType dtype) {
    Kernel kernel = attention(1280, true, part);
    kernel.dtype = dtype;
    kernel.window = window;
    return microseconds(kernel_cost(kernel, device));
  };
  CHECK(time(AttentionPart::backward, 128, DType::fp8) ==
        time(AttentionPart::backward, 0, DType::fp8));
  CHECK(time(AttentionPart::forward, 128, DType::fp8) <
        0.5 * time(AttentionPart::forward, 0, DType::fp8));
  CHECK(time(AttentionPart::backward, 128, DType::bf16) <
        0.5 * time(AttentionPart::backward, 0, DType::bf16));
}

TEST_CASE("narrow heads lose less of the gain of 8 bits than wide ones add", "[cost]") {
  // Width exponent 1.6 from 128 features on; 0.25 below.
  Device device = round_device();
  device.attention.fp8 = AttentionModel::EightBit{.forward = {.gain = 1.5, .width = 1.6},
                                                  .backward = {.gain = 1.5, .width = 1.6}};
  const auto gain = [&](std::int64_t width) {
    Kernel kernel = attention(1280, true, AttentionPart::forward);
    kernel.k = width;
    const double plain = microseconds(kernel_cost(kernel, device));
    kernel.dtype = DType::fp8;
    return plain / microseconds(kernel_cost(kernel, device));
  };
  CHECK_THAT(gain(128), WithinRel(1.5, 1e-6));
  CHECK_THAT(gain(64), WithinRel(1.5 * std::pow(0.5, 0.25), 1e-6));
  CHECK_THAT(gain(256), WithinRel(1.5 * std::pow(2, 1.6), 1e-6));
}

TEST_CASE("flash attention within a window takes the keys that count, and half a block at its edge",
          "[cost]") {
  // 1280 tokens, a window of 256: of 1280^2 / 2 scores 256 * 1280 - 256^2 / 2 count, a share of
  // 0.36; of 1280 rows 1024 see 64 keys in vain.
  const Device device = round_device();
  const auto time = [&](std::int64_t window) {
    Kernel kernel = attention(1280, true, AttentionPart::forward);
    kernel.window = window;
    return microseconds(kernel_cost(kernel, device));
  };
  const double causal = time(0);
  const double counted = 256.0 * 1280 - 256.0 * 256 / 2;
  CHECK_THAT(time(256), WithinRel(causal * (counted + 1024.0 * 64) / (1280.0 * 1280 / 2), 1e-6));
  CHECK(time(1280) == causal);
  CHECK(time(1279) <= causal);
  for (std::int64_t window = 64; window < 1280; window += 64)
    CHECK(time(window) < time(window + 64) * 1.0001);
}

TEST_CASE("latent attention multiplies by the width of keys and by that of values", "[cost]") {
  // Keys of 192, values of 128: 2 (192 + 128) instead of 4 * 128 forward; backward three products
  // of the keys' width and two of the values'.
  const Device device = round_device();
  const auto time = [&](AttentionPart part, std::int64_t keys, std::int64_t values) {
    Kernel kernel = attention(1280, false, part);
    kernel.k = keys;
    kernel.values = values;
    return microseconds(kernel_cost(kernel, device));
  };
  const double forward = time(AttentionPart::forward, 128, 0);
  CHECK_THAT(time(AttentionPart::forward, 192, 128), WithinRel(forward * 320 / 256, 1e-6));
  const double backward = time(AttentionPart::backward, 128, 128);
  CHECK_THAT(time(AttentionPart::backward, 192, 128),
             WithinRel(backward * (3 * 192 + 2 * 128) / (5 * 128), 1e-6));
}

TEST_CASE("flash attention ramps with the keys per query and the head dimension", "[cost]") {
  Device device = round_device();
  device.attention.ramp_tokens = 640;
  // 1280 keys reach 1280 / 1920 of the rate, and 640 (the causal mean) half of it.
  CHECK_THAT(microseconds(kernel_cost(attention(1280, false, AttentionPart::forward), device)),
             WithinRel(167.77216 * 1.5, 1e-6));
  CHECK_THAT(microseconds(kernel_cost(attention(1280, true, AttentionPart::forward), device)),
             WithinRel(167.77216 / 2 * 2, 1e-6));
  device.attention.ramp_tokens = 0;
  device.attention.ramp_head_dim = 64;
  // 64 of 64 + 64 is 1/2, 128 of 128 + 64 is 2/3: three quarters of the rate, half of the work.
  Kernel narrow = attention(1280, false, AttentionPart::forward);
  narrow.k = 64;
  CHECK_THAT(microseconds(kernel_cost(narrow, device)), WithinRel(167.77216 / 2 / 0.75, 1e-6));
}

TEST_CASE("each generation of flash attention has its rates, its shape and its measured time",
          "[cost]") {
  Device device = round_device();
  AttentionModel older = device.attention;
  older.forward_attained /= 2;
  device.flash_attention_2 = older;
  older.forward_attained /= 2;
  device.flash_attention_1 = older;
  Kernel kernel = attention(1280, false, AttentionPart::forward);
  double slower = 1;
  std::vector<KernelTime> rows;
  for (const AttentionKernel implementation :
       {AttentionKernel::flash, AttentionKernel::flash_2, AttentionKernel::flash_1}) {
    kernel.attention = implementation;
    CHECK_THAT(microseconds(kernel_cost(kernel, device)), WithinRel(167.77216 * slower, 1e-6));
    for (const KernelTime& row : rows)
      CHECK(row.shape != shape_of(kernel));
    rows.push_back({shape_of(kernel), std::chrono::microseconds{rows.size() + 1}});
    slower *= 2;
  }
  std::sort(rows.begin(), rows.end(),
            [](const KernelTime& a, const KernelTime& b) { return a.shape < b.shape; });
  device.measured_kernels = rows;
  kernel.attention = AttentionKernel::flash_1;
  REQUIRE(measured_time(kernel, device) != nullptr);
  CHECK(measured_time(kernel, device)->time == std::chrono::microseconds{3});
  device.flash_attention_1.reset();
  device.measured_kernels.clear();
  CHECK_THROWS_AS(kernel_cost(kernel, device), std::logic_error);
}

TEST_CASE("a measured time follows what-ifs of its device by the formula's ratio", "[cost]") {
  const Device file = round_device();
  Kernel kernel = attention(1280, false, AttentionPart::forward);
  Device device = file;
  device.measured_kernels = {{shape_of(kernel), std::chrono::microseconds{300}}};
  device.measured_on = std::make_shared<const Device>(file);
  CHECK(kernel_cost(kernel, device).time == std::chrono::microseconds{300});
  // Half the rate, in the formula and hence of what was measured.
  device.attention.forward_attained /= 2;
  CHECK_THAT(microseconds(kernel_cost(kernel, device)), WithinRel(600, 1e-6));
  device.attention.forward_attained *= 2 * (1 + 1e-6);
  CHECK_THAT(microseconds(kernel_cost(kernel, device)), WithinRel(300 / (1 + 1e-6), 1e-8));
}

TEST_CASE("unfused attention is its products and its memory-bound kernels", "[cost]") {
  const Device device = round_device();
  Kernel kernel = attention(1280, true, AttentionPart::forward);
  kernel.attention = AttentionKernel::unfused;
  kernel.launches = 3;  // two products and the softmax
  Kernel scores = product(1280, 1280, 128);
  scores.batch = 10;
  Kernel context = product(1280, 128, 1280);
  context.batch = 10;
  // The softmax reads and writes the scores: 2 passes beside the products' own bytes, at 0.2 TB/s.
  const std::int64_t matrix = 1280 * 1280 * 10 * 2;
  const std::int64_t operands = 2 * (1280 * 128 * 10 * 2) * 2;
  kernel.bytes = Bytes{4 * matrix + operands};
  const double products =
      microseconds(kernel_cost(scores, device)) + microseconds(kernel_cost(context, device));
  const double softmax = 2 + static_cast<double>(2 * matrix) / 0.2e12 * 1e6;
  CHECK_THAT(microseconds(kernel_cost(kernel, device)), WithinRel(products + softmax, 1e-6));
  // Dropout beside it at 0.5 TB/s, the rate of element-wise kernels.
  Kernel dropped = kernel;
  dropped.beside = Bytes{5 * matrix / 2};
  dropped.bytes = kernel.bytes + dropped.beside;
  const double dropout = static_cast<double>(dropped.beside.count()) / 0.5e12 * 1e6;
  CHECK_THAT(microseconds(kernel_cost(dropped, device)),
             WithinRel(products + softmax + dropout, 1e-6));
  kernel.part = AttentionPart::backward;  // four products
  CHECK(microseconds(kernel_cost(kernel, device)) >= 2 * products);
}

TEST_CASE("the sum of gradients beside a norm goes at the rate of element-wise kernels", "[cost]") {
  const Device device = round_device();
  Kernel norm = streaming(OpKind::norm, 6'000'000);
  norm.part = AttentionPart::backward;
  const double alone = microseconds(kernel_cost(norm, device));
  CHECK_THAT(alone, WithinRel(2 + 6e6 / 0.25e12 * 1e6, 1e-6));
  norm.beside = Bytes{3'000'000};
  CHECK_THAT(microseconds(kernel_cost(norm, device)),
             WithinRel(2 + 3e6 / 0.25e12 * 1e6 + 3e6 / 0.5e12 * 1e6, 1e-6));
}

TEST_CASE("kernels that work element by element or transpose have rates of their own", "[cost]") {
  const auto has_rate = [](Bytes Kernel::*part, std::optional<double> MemoryModel::*share,
                           double of_bandwidth) {
    Device device = round_device();
    Kernel kernel = streaming(OpKind::elementwise, 6'000'000);
    const double alone = microseconds(kernel_cost(kernel, device));
    kernel.*part = Bytes{3'000'000};
    CHECK(microseconds(kernel_cost(kernel, device)) == alone);  // a file without it
    device.memory_kernels.*share = of_bandwidth;
    CHECK_THAT(microseconds(kernel_cost(kernel, device)),
               WithinRel(2 + 3e6 / 0.5e12 * 1e6 + 3e6 / (of_bandwidth * 1e12) * 1e6, 1e-6));
  };
  has_rate(&Kernel::strided, &MemoryModel::strided, 0.125);
  has_rate(&Kernel::transposed, &MemoryModel::transposed, 0.25);
}

TEST_CASE("heads of no multiple of 16 bytes do without tensor cores", "[cost]") {
  Device device = round_device();
  device.gemm[static_cast<std::size_t>(DType::fp32)]->peak = FlopRate::per_second(10e12);
  const auto time = [&](std::int64_t features, DType dtype = DType::bf16) {
    Kernel kernel = attention(1280, true, AttentionPart::forward);
    kernel.attention = AttentionKernel::unfused;
    kernel.k = features;
    kernel.dtype = dtype;
    return microseconds(kernel_cost(kernel, device));
  };
  CHECK(time(112) < 1.05 * time(104));
  CHECK(time(108) > 5 * time(112));
  CHECK(time(108) == time(108, DType::fp32));
  // Without a rate of fp32 products nothing is known of it.
  device.gemm[static_cast<std::size_t>(DType::fp32)].reset();
  CHECK(time(108) <= time(112));
}

TEST_CASE("a collective has no kernel cost", "[cost]") {
  CHECK_THROWS_AS(kernel_cost(streaming(OpKind::collective, 1), round_device()), std::logic_error);
}

}  // namespace
}  // namespace sim
