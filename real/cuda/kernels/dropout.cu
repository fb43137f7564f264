// Dropout, with and without a residual sum. Whether an element is dropped is said by the header
// that the host's kernels have, too (real/engine/kernels/dropout.hpp).
#include "real/cuda/kernels/launch.cuh"
#include "real/engine/kernels/dropout.hpp"

namespace real::kernels {
namespace {

constexpr unsigned block_threads = 256;

// Vectors of `count` elements, none of which reaches into the next row.
template <int count, class T>
__global__ void drop_kernel(DropoutShape shape, std::int64_t vectors, const T* input,
                            const T* residual, T* output) {
  DropoutMask mask{shape.dropout};
  for (std::int64_t i = global_thread(); i < vectors; i += global_threads()) {
    const std::int64_t t = i * count / shape.width, column = i * count % shape.width;
    const auto first = static_cast<std::uint64_t>(shape.row(t) * shape.width + column);
    float x[count], past[count] = {};
    load(input + i * count, x);
    if (residual != nullptr) load(residual + i * count, past);
#pragma unroll
    for (int j = 0; j < count; ++j)
      x[j] = x[j] * mask.factor(first + j) + past[j];
    store(x, output + i * count);
  }
}

}  // namespace

void drop(const DropoutShape& shape, const void* input, const void* residual, void* output,
          StreamHandle stream) {
  const std::int64_t elements = shape.tokens.tokens * shape.width;
  if (elements == 0) return;
  with_type("drop", shape.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_vector<T>(aligned({input, residual, output}), shape.width, [&](auto count) {
      constexpr int n = decltype(count)::value;
      launch({.name = "drop",
              .blocks = {stride_blocks(elements / n, block_threads)},
              .threads = block_threads,
              .stream = stream},
             drop_kernel<n, T>, shape, elements / n, as<T>(input), as<T>(residual), as<T>(output));
    });
  });
}

}  // namespace real::kernels
