// On a GPU: TFLOP/s of attention, as the FlashAttention-2 paper counts them (Dao 2023, section
// 4.1): 4 sequence^2 head_dim heads per sequence forward, half of it with a causal mask, 2.5 times
// as much backward. Run as `gpu_kernels "[speed]"`.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <random>
#include <vector>

#include "tests/catch.hpp"
#include "tests/gpu/device_array.hpp"

using namespace gpu_test;
using real::kernels::AttentionShape;

namespace {

// Median of runs, each timed by itself.
template <class Run>
double median_seconds(Run run) {
  constexpr int warm = 3, runs = 11;
  cudaEvent_t begin = nullptr, end = nullptr;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  std::vector<float> times;
  for (int i = 0; i < warm + runs; ++i) {
    cudaEventRecord(begin, nullptr);
    run();
    cudaEventRecord(end, nullptr);
    cudaEventSynchronize(end);
    float milliseconds = 0;
    REQUIRE(cudaEventElapsedTime(&milliseconds, begin, end) == cudaSuccess);
    if (i >= warm) times.push_back(milliseconds);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  std::nth_element(times.begin(), times.begin() + runs / 2, times.end());
  return static_cast<double>(times[runs / 2]) * 1e-3;
}

// bf16 numbers in [-1, 1): a million random ones again and again, copied on the device. To make all
// of them here would take longer than to measure.
std::shared_ptr<void> repeated_numbers(unsigned seed, std::size_t count) {
  const std::size_t pattern = std::min<std::size_t>(count, 1 << 20);
  std::vector<std::uint16_t> values(pattern);
  std::mt19937 generator{seed};
  for (std::uint16_t& value : values)
    value = to_bf16(static_cast<double>(generator()) / 2147483648.0 - 1);
  std::shared_ptr<void> memory = allocate(count * 2);
  upload(memory.get(), values.data(), pattern * 2);
  auto* const bytes = static_cast<std::byte*>(memory.get());
  for (std::size_t done = pattern; done < count;) {
    const std::size_t more = std::min(done, count - done);
    REQUIRE(cudaMemcpy(bytes + done * 2, bytes, more * 2, cudaMemcpyDeviceToDevice) == cudaSuccess);
    done += more;
  }
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  return memory;
}

void measure(const AttentionShape& shape) {
  const auto& h = shape.heads;
  const auto elements = static_cast<std::size_t>(h.tokens * h.row());
  const auto outputs = static_cast<std::size_t>(h.tokens * h.heads * h.head_dim);
  const std::shared_ptr<void> qkv = repeated_numbers(1, elements);
  const std::shared_ptr<void> gradient = repeated_numbers(2, outputs);
  const std::shared_ptr<void> output = allocate(outputs * 2);
  const std::shared_ptr<void> qkv_gradient = allocate(elements * 2);
  const std::shared_ptr<void> sums =
      allocate(static_cast<std::size_t>(h.tokens * h.heads) * sizeof(float));
  auto* const log_sums = static_cast<float*>(sums.get());
  const Scratch scratch{real::kernels::attention_backward_workspace(shape)};
  const double forward = median_seconds(
      [&] { real::kernels::attention_forward(shape, qkv.get(), output.get(), log_sums, nullptr); });
  const double backward = median_seconds([&] {
    real::kernels::attention_backward(
        shape, {qkv.get(), output.get(), log_sums, gradient.get(), qkv_gradient.get()},
        scratch.workspace(), nullptr);
  });
  const double flops = 4.0 * static_cast<double>(h.tokens) * static_cast<double>(h.sequence) *
                       static_cast<double>(h.heads * h.head_dim) * (shape.causal ? 0.5 : 1.0);
  std::printf("%s,%lld,%lld,%lld,%lld,%lld,%.1f,%.1f\n", shape.causal ? "causal" : "full",
              static_cast<long long>(h.tokens / h.sequence), static_cast<long long>(h.sequence),
              static_cast<long long>(h.heads), static_cast<long long>(h.kv_heads),
              static_cast<long long>(h.head_dim), flops / forward * 1e-12,
              2.5 * flops / backward * 1e-12);
  (void)std::fflush(stdout);  // a run that is cut short keeps what it has
}

}  // namespace

TEST_CASE("speed of attention", "[.][speed]") {
  std::printf("mask,sequences,sequence,heads,kv_heads,head_dim,forward_tflops,backward_tflops\n");
  // First those of the models that are compared with PyTorch.
  for (const std::int64_t heads : {12, 25})
    measure({{sim::DType::bf16, 16384, 1024, heads, heads, 64}, true});
  for (const bool causal : {true, false})
    for (const std::int64_t head_dim : {std::int64_t{64}, std::int64_t{128}})
      for (const std::int64_t sequence : {1024, 2048, 4096, 8192})
        measure({{sim::DType::bf16, 16384, sequence, 2048 / head_dim, 2048 / head_dim, head_dim},
                 causal});
}
