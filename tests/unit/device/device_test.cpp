// The strict reader of device files, and the files that ship.
#include "sim/topology/device.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <set>

#include "sim/base/input_error.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"

namespace sim {
namespace {

constexpr const char* good = R"(name: Test GPU
origin: made up
sources:
  - none
generation: hopper
sms: 100
memory: 80 GiB
reserved:
  cuda_context: 400 MiB
  nccl: 1 GiB
  libraries: 64 MiB
l2: 50 MiB
memory_bandwidth: 3 TB/s
tdp_watts: 700
host_issue: 5 us
gemm:
  bf16: &bf16
    peak: 1000 TFLOP/s
    attained: 0.9
    sustained: 0.7
    ramp_k: 200
    fixed: 2 us
  fp16: *bf16
operand_feed:
  per_sm: 100 GB/s
  device: 10 TB/s
memory_kernels:
  elementwise: 0.8
  norm_forward: 0.5
  norm_backward: 0.4
  softmax: 0.4
  optimizer: 0.7
  gemm: 0.8
  fixed: 2 us
  per_sm: 90 GB/s
attention:
  kernels: FlashAttention-3
  forward_attained: 0.6
  backward_attained: 0.5
  ramp_tokens: 200
  ramp_head_dim: 100
  causal_efficiency: 0.9
  fixed: 5 us
short_loops:
  burst: 0.2
  burst_half: 250 us
  l2_bandwidth: 4 TB/s
)";

// The text with one line replaced, or removed if `line` is empty.
std::string with_line(const std::string& key, const std::string& line) {
  std::string text = good;
  const std::size_t begin = text.find(key);
  REQUIRE(begin != std::string::npos);
  const std::size_t end = text.find('\n', begin);
  return text.replace(begin, end - begin + 1, line.empty() ? "" : line + "\n");
}

std::string problem_of(const std::string& text) {
  try {
    parse_device(text, "gpu.yaml");
  } catch (const InputError& error) {
    const Problem& problem = error.problems().front();
    return std::to_string(problem.where.line) + ":" + std::to_string(problem.where.column) + ": " +
           problem.what;
  }
  return "no problem";
}

TEST_CASE("a device file is read to the last figure", "[device]") {
  const Device device = parse_device(good, "gpu.yaml");
  CHECK(device.name == "Test GPU");
  CHECK(device.generation == Generation::hopper);
  CHECK(device.sms == 100);
  CHECK(device.memory == Bytes{80LL << 30});
  CHECK(device.reserved == Bytes{(400LL + 1024 + 64) << 20});
  CHECK(device.memory_bandwidth.in_bytes_per_second() == 3e12);
  CHECK(device.host_issue == std::chrono::microseconds(5));
  CHECK(device.peak(DType::fp16).in_flops_per_second() == 1000e12);
  CHECK(device.gemm_model(DType::bf16)->ramp_k == 200);
  CHECK(device.gemm_model(DType::bf16)->gradient_share == 1);
  const std::string fp8 =
      "  fp8: {peak: 2 PFLOP/s, attained: 0.9, gradient_share: 0.75, sustained: 0.7, ramp_k: 400, "
      "fixed: 2 us}";
  const Device slower =
      parse_device(with_line("  fp16: *bf16", "  fp16: *bf16\n" + fp8), "gpu.yaml");
  CHECK(slower.gemm_model(DType::fp8)->gradient_share == 0.75);
  CHECK(problem_of(with_line("    ramp_k: 200", "    ramp_k: 200\n    gradient_share: 0.75"))
            .find("gradient_share is for fp8 products only") != std::string::npos);
  for (const char* key : {"block_share", "row_share"})
    CHECK(
        problem_of(with_line("    ramp_k: 200", fmt::format("    ramp_k: 200\n    {}: 0.75", key)))
            .find(fmt::format("{} is for fp8 products only", key)) != std::string::npos);
  CHECK(device.gemm_model(DType::fp8) == nullptr);
  CHECK(device.attention.kernels == "FlashAttention-3");
  CHECK(device.memory_kernels.per_sm.in_bytes_per_second() == 90e9);
  CHECK_FALSE(device.memory_kernels.strided.has_value());
  CHECK_FALSE(device.memory_kernels.transposed.has_value());
  CHECK(device.burst_half == std::chrono::microseconds(250));
}

TEST_CASE("mistakes in a device file are named with their place", "[device]") {
  struct Row {
    const char* key;
    const char* line;
    const char* place;  // beginning of the problem
  };
  const Row rows[] = {
      {"sms:", "sms: 0", "6:6: "},
      {"sms:", "sms: many", "6:6: "},
      {"memory_bandwidth:", "memory_bandwidth: 3000", "13:19: "},
      {"memory_bandwidth:", "memory_bandwith: 3 TB/s",
       "13:1: unknown key 'memory_bandwith'; did you mean 'memory_bandwidth'?"},
      {"tdp_watts:", "", "1:1: "},
      {"    attained:", "    attained: -1", "19:15: "},
      {"    sustained:", "    sustained: 1.5", "20:16: "},
      {"  fp16: *bf16", "  fp12: *bf16",
       "17:9: unknown dtype \"fp12\"; allowed: fp32, tf32, bf16, fp16, fp8, nvfp4"},
      {"generation:", "generation: pascal", "5:13: "},
      {"memory: 80 GiB", "memory: 1 GiB", "7:9: must be more than what is reserved"},
      {"    peak:", "    peak: 0 TFLOP/s", "18:11: '0 TFLOP/s' is too small"},
      {"  device: 10 TB/s", "  device: 0 TB/s", "26:11: '0 TB/s' is too small"},
  };
  for (const Row& row : rows) {
    const std::string problem = problem_of(with_line(row.key, row.line));
    CAPTURE(row.key, row.line, problem);
    CHECK(problem.rfind(row.place, 0) == 0);
  }
}

TEST_CASE("part of the SMs keep their rate each, and the power of all", "[device]") {
  const Device whole = parse_device(good, "gpu.yaml");
  const Device half = restricted_to_sms(whole, 50);
  CHECK(half.sms == 50);
  CHECK(half.peak(DType::bf16).in_flops_per_second() == 500e12);
  // 0.7 of 1000 TFLOP/s is 1.4 of 500.
  CHECK_THAT(half.gemm_model(DType::bf16)->sustained, WithinRel(1.4, 1e-12));
  CHECK(half.memory_bandwidth == whole.memory_bandwidth);
  CHECK_THROWS_AS(restricted_to_sms(whole, 0), std::logic_error);
  CHECK_THROWS_AS(restricted_to_sms(whole, 101), std::logic_error);
}

TEST_CASE("every shipped device is read and has a name of its own", "[device]") {
  std::set<std::string> names;
  int files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(sim::test::source_dir() + "/topologies/devices")) {
    if (entry.path().extension() != ".yaml") continue;
    ++files;
    CAPTURE(entry.path().string());
    const Device device = load_device(entry.path().string());
    names.insert(device.name);
    CHECK(!device.origin.empty());
    if (device.generation == Generation::cpu) {  // the host backend computes in fp32 alone
      CHECK(device.gemm_model(DType::fp32) != nullptr);
      CHECK(device.reserved == Bytes{});
      continue;
    }
    CHECK(device.gemm_model(DType::fp16) != nullptr);
    CHECK((device.gemm_model(DType::bf16) == nullptr) == (device.generation == Generation::volta));
    const bool eight_bit = device.generation != Generation::volta &&
                           device.generation != Generation::ampere &&
                           device.generation != Generation::cdna2;
    CHECK((device.gemm_model(DType::fp8) != nullptr) == eight_bit);
    // Eager issue and what the libraries take: microseconds, and a few GiB of many.
    CHECK(device.host_issue > std::chrono::microseconds(1));
    CHECK(device.host_issue < std::chrono::microseconds(50));
    CHECK(device.reserved < Bytes{4LL << 30});
  }
  CHECK(files >= 10);
  CHECK(static_cast<int>(names.size()) == files);
}

}  // namespace
}  // namespace sim
