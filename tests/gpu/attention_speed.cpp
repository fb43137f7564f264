// On a GPU: TFLOP/s of attention, as the FlashAttention-2 paper counts them (Dao 2023, section
// 4.1): 4 sequence^2 head_dim heads per sequence forward, half of it with a causal mask, 2.5 times
// as much backward. Run as `gpu_kernels "[speed]"`.
#include <cuda_runtime_api.h>

#include <cstdio>
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

void measure(const AttentionShape& shape) {
  const auto& h = shape.heads;
  const auto elements = static_cast<std::size_t>(h.tokens * h.row());
  const auto outputs = static_cast<std::size_t>(h.tokens * h.heads * h.head_dim);
  const Array qkv{h.dtype, random_numbers(1, elements, h.dtype)};
  const Array gradient{h.dtype, random_numbers(2, outputs, h.dtype)};
  const Array output{h.dtype, outputs}, qkv_gradient{h.dtype, elements};
  const Array log_sums{sim::DType::fp32, static_cast<std::size_t>(h.tokens * h.heads)};
  const Scratch scratch{real::kernels::attention_backward_workspace(shape)};
  const double forward = median_seconds([&] {
    real::kernels::attention_forward(shape, qkv.data(), output.data(), log_sums.floats(), nullptr);
  });
  const double backward = median_seconds([&] {
    real::kernels::attention_backward(
        shape, {qkv.data(), output.data(), log_sums.floats(), gradient.data(), qkv_gradient.data()},
        scratch.workspace(), nullptr);
  });
  const double flops = 4.0 * static_cast<double>(h.tokens) * static_cast<double>(h.sequence) *
                       static_cast<double>(h.heads * h.head_dim) * (shape.causal ? 0.5 : 1.0);
  std::printf("%s,%lld,%lld,%lld,%lld,%lld,%.1f,%.1f\n", shape.causal ? "causal" : "full",
              static_cast<long long>(h.tokens / h.sequence), static_cast<long long>(h.sequence),
              static_cast<long long>(h.heads), static_cast<long long>(h.kv_heads),
              static_cast<long long>(h.head_dim), flops / forward * 1e-12,
              2.5 * flops / backward * 1e-12);
}

}  // namespace

TEST_CASE("speed of attention", "[.][speed]") {
  std::printf("mask,sequences,sequence,heads,kv_heads,head_dim,forward_tflops,backward_tflops\n");
  for (const bool causal : {true, false})
    for (const std::int64_t head_dim : {std::int64_t{64}, std::int64_t{128}})
      for (const std::int64_t sequence : {1024, 2048, 4096, 8192})
        measure({{sim::DType::bf16, 16384, sequence, 2048 / head_dim, 2048 / head_dim, head_dim},
                 causal});
}
