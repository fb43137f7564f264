// Norms over rows that the fast kernels do not take: those that begin at no 16-byte boundary or are
// no multiple of it, and the backward pass of very wide ones. A block per row, which it reads anew
// for every sum (from the L1 cache, but for the first time); each column belongs to one thread.
#include "real/cuda/kernels/norm.cuh"

namespace real::kernels {
namespace {

constexpr unsigned plain_threads = 512;
constexpr std::size_t scratch_bytes = plain_threads / warp_size * sizeof(float);

// visit(column) of the thread's vectors of a row.
template <int count, class Visit>
__device__ __forceinline__ void each_column(std::int64_t width, Visit visit) {
  for (std::int64_t column = static_cast<std::int64_t>(threadIdx.x) * count; column < width;
       column += static_cast<std::int64_t>(blockDim.x) * count)
    visit(column);
}

struct Statistics {
  float mean, inverse;  // 1 / deviation
};

// Two passes: the variance of differences, which does not cancel.
template <class Traits, int count, class T>
__device__ __forceinline__ Statistics statistics(std::int64_t width, float epsilon, const T* row,
                                                 float* scratch) {
  const float inverse_width = 1.0f / static_cast<float>(width);
  float mean = 0;
  if constexpr (Traits::centred) {
    float sum = 0;
    each_column<count>(width, [&](std::int64_t column) {
      float x[count];
      load(row + column, x);
#pragma unroll
      for (const float value : x)
        sum += value;
    });
    mean = combine_block(sum, Sum{}, scratch) * inverse_width;
  }
  float squares = 0;
  each_column<count>(width, [&](std::int64_t column) {
    float x[count];
    load(row + column, x);
#pragma unroll
    for (const float value : x)
      squares += (value - mean) * (value - mean);
  });
  const float variance = combine_block(squares, Sum{}, scratch) * inverse_width;
  return {mean, 1.0f / sqrtf(variance + epsilon)};
}

template <class Traits, class T>
__global__ void __launch_bounds__(plain_threads)
    norm_forward_plain_kernel(std::int64_t width, float epsilon, const T* input,
                              const T* parameters, T* output) {
  const T* row = input + blockIdx.x * width;
  T* to = output + blockIdx.x * width;
  const Statistics of = statistics<Traits, 1>(width, epsilon, row, shared_memory<float>());
  each_column<1>(width, [&](std::int64_t column) {
    float y = (to_float(row[column]) - of.mean) * of.inverse * to_float(parameters[column]);
    if constexpr (Traits::shifted) y += to_float(parameters[width + column]);
    to[column] = from_float<T>(y);
  });
}

// n, dy and the parameters' share of a vector of columns: visit(column, n, dy, g = dy scale).
template <int count, class T, class Visit>
__device__ __forceinline__ void each_gradient(const NormRows<T>& o, std::int64_t at,
                                              const Statistics& of, Visit visit) {
  each_column<count>(o.width, [&](std::int64_t column) {
    float n[count], dy[count], g[count];
    load(o.input + at + column, n);
    load(o.gradient + at + column, dy);
    load(o.parameters + column, g);
#pragma unroll
    for (int j = 0; j < count; ++j) {
      n[j] = (n[j] - of.mean) * of.inverse;
      g[j] *= dy[j];
    }
    visit(column, n, dy, g);
  });
}

template <class Traits, int count, class T>
__global__ void __launch_bounds__(plain_threads, 2) norm_backward_plain_kernel(NormRows<T> o) {
  auto* scratch = shared_memory<float>();  // an element per warp, then the parameters' sums
  float* sums = scratch + plain_threads / warp_size;
  const std::int64_t sum_count = Traits::vectors * o.width;
  for (std::int64_t i = threadIdx.x; i < sum_count; i += blockDim.x)
    sums[i] = 0;
  __syncthreads();
  for (std::int64_t row = blockIdx.x; row < o.rows; row += gridDim.x) {
    const std::int64_t at = row * o.width;
    const Statistics of = statistics<Traits, count>(o.width, o.epsilon, o.input + at, scratch);
    float along = 0, mean = 0;
    each_gradient<count>(o, at, of,
                         [&](std::int64_t column, const float(&n)[count], const float(&dy)[count],
                             const float(&g)[count]) {
#pragma unroll
                           for (int j = 0; j < count; ++j) {
                             along += g[j] * n[j];
                             mean += g[j];
                             sums[column + j] += dy[j] * n[j];
                             if constexpr (Traits::shifted) sums[o.width + column + j] += dy[j];
                           }
                         });
    along = combine_block(along, Sum{}, scratch) / static_cast<float>(o.width);
    mean =
        Traits::centred ? combine_block(mean, Sum{}, scratch) / static_cast<float>(o.width) : 0.0f;
    each_gradient<count>(o, at, of,
                         [&](std::int64_t column, const float(&n)[count], const float(&)[count],
                             const float(&g)[count]) {
                           float dx[count] = {};
                           if (o.residual != nullptr) load(o.residual + at + column, dx);
#pragma unroll
                           for (int j = 0; j < count; ++j)
                             dx[j] += (g[j] - mean - n[j] * along) * of.inverse;
                           store(dx, o.input_gradient + at + column);
                         });
  }
  __syncthreads();
  for (std::int64_t i = threadIdx.x; i < sum_count; i += blockDim.x)
    o.partials[blockIdx.x * sum_count + i] = sums[i];
}

}  // namespace

void norm_forward_plain(const NormShape& shape, const void* input, const void* parameters,
                        void* output, StreamHandle stream) {
  with_type("norm_forward", shape.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_norm("norm_forward", shape.function, [&](auto traits) {
      launch({.name = "norm_forward",
              .blocks = {static_cast<unsigned>(shape.rows)},
              .threads = plain_threads,
              .shared_bytes = scratch_bytes,
              .stream = stream},
             norm_forward_plain_kernel<decltype(traits), T>, shape.width, shape.epsilon,
             as<T>(input), as<T>(parameters), as<T>(output));
    });
  });
}

void norm_backward_plain(const NormShape& shape, const NormBackward& operands, bool is_aligned,
                         const Partials& partials, StreamHandle stream) {
  with_type("norm_backward", shape.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    const NormRows<T> rows = norm_rows<T>(shape, operands, partials);
    with_norm("norm_backward", shape.function, [&](auto traits) {
      with_vector<T>(is_aligned, shape.width, [&](auto count) {
        launch({.name = "norm_backward",
                .blocks = {static_cast<unsigned>(partials.parts)},
                .threads = plain_threads,
                .shared_bytes =
                    scratch_bytes + static_cast<std::size_t>(partials.width) * sizeof(float),
                .stream = stream},
               norm_backward_plain_kernel<decltype(traits), decltype(count)::value, T>, rows);
      });
    });
  });
}

}  // namespace real::kernels
