// Norms over rows. A block holds a row in registers: `per_thread` elements of each thread, so that
// the row is read once; the backward pass goes over several rows and sums the gradients of its
// columns in shared memory, each column by one thread.
#include "real/cuda/kernels/norm.cuh"

namespace real::kernels {
namespace {

constexpr int most_threads = 512;

// Where a thread's elements lie: vectors of `count`, a block apart.
template <int count, int per_thread>
struct Columns {
  int width;
  __device__ int of(int chunk) const {
    return (chunk * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) * count;
  }
};

template <int count, int per_thread, class T>
__device__ __forceinline__ void load_row(const Columns<count, per_thread>& columns, const T* row,
                                         float (&x)[per_thread / count][count]) {
#pragma unroll
  for (int c = 0; c < per_thread / count; ++c) {
    if (columns.of(c) < columns.width) {
      load(row + columns.of(c), x[c]);
    } else {
#pragma unroll
      for (int j = 0; j < count; ++j)
        x[c][j] = 0;
    }
  }
}

struct Two {
  float a, b;
  __device__ Two operator+(const Two& other) const { return {a + other.a, b + other.b}; }
};

// x becomes (x - mean) / deviation; returns 1 / deviation. Two passes over registers: the variance
// of differences, which does not cancel. Elements beyond the row stay 0.
template <class Traits, int count, int per_thread>
__device__ __forceinline__ float normalise(const Columns<count, per_thread>& columns, float epsilon,
                                           float (&x)[per_thread / count][count], float* scratch) {
  const float inverse_width = 1.0f / static_cast<float>(columns.width);
  float mean = 0;
  if constexpr (Traits::centred) {
    float sum = 0;
#pragma unroll
    for (int c = 0; c < per_thread / count; ++c)
#pragma unroll
      for (int j = 0; j < count; ++j)
        sum += x[c][j];
    mean = combine_block(sum, Sum{}, scratch) * inverse_width;
  }
  float squares = 0;
#pragma unroll
  for (int c = 0; c < per_thread / count; ++c) {
    const bool inside = columns.of(c) < columns.width;
#pragma unroll
    for (int j = 0; j < count; ++j) {
      x[c][j] = inside ? x[c][j] - mean : 0.0f;
      squares += x[c][j] * x[c][j];
    }
  }
  const float variance = combine_block(squares, Sum{}, scratch) * inverse_width;
  const float inverse = 1.0f / sqrtf(variance + epsilon);
#pragma unroll
  for (int c = 0; c < per_thread / count; ++c)
#pragma unroll
    for (int j = 0; j < count; ++j)
      x[c][j] *= inverse;
  return inverse;
}

template <class Traits, int count, int per_thread, class T>
__global__ void __launch_bounds__(most_threads)
    norm_forward_kernel(std::int64_t width, float epsilon, const T* input, const T* parameters,
                        T* output) {
  const Columns<count, per_thread> columns{static_cast<int>(width)};
  auto* scratch = shared_memory<float>();
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * width;
  float x[per_thread / count][count];
  load_row(columns, input + row, x);
  normalise<Traits>(columns, epsilon, x, scratch);
#pragma unroll
  for (int c = 0; c < per_thread / count; ++c) {
    const int column = columns.of(c);
    if (column >= width) continue;
    float scale[count], shift[count] = {};
    load(parameters + column, scale);
    if constexpr (Traits::shifted) load(parameters + width + column, shift);
#pragma unroll
    for (int j = 0; j < count; ++j)
      x[c][j] = x[c][j] * scale[j] + shift[j];
    store(x[c], output + row + column);
  }
}

template <class T>
struct BackwardOperands {
  std::int64_t rows, width;
  float epsilon;
  const T* input;
  const T* parameters;
  const T* gradient;
  const T* residual;  // or null
  T* input_gradient;
  float* partials;  // [blocks, vectors * width]
};

// Adds this row's share of the gradients of scale and shift to the sums of the block, and turns
// `dy` into g = dy scale.
template <class Traits, int count, int per_thread, class T>
__device__ __forceinline__ void parameter_sums(const BackwardOperands<T>& o,
                                               const Columns<count, per_thread>& columns,
                                               const float (&n)[per_thread / count][count],
                                               float (&dy)[per_thread / count][count],
                                               float* sums) {
#pragma unroll
  for (int c = 0; c < per_thread / count; ++c) {
    const int column = columns.of(c);
    if (column >= o.width) continue;
    float scale[count];
    load(o.parameters + column, scale);
    float sum[count];
    load(sums + column, sum);
#pragma unroll
    for (int j = 0; j < count; ++j)
      sum[j] += dy[c][j] * n[c][j];
    store(sum, sums + column);
    if constexpr (Traits::shifted) {
      load(sums + o.width + column, sum);
#pragma unroll
      for (int j = 0; j < count; ++j)
        sum[j] += dy[c][j];
      store(sum, sums + o.width + column);
    }
#pragma unroll
    for (int j = 0; j < count; ++j)
      dy[c][j] *= scale[j];
  }
}

template <class Traits, int count, int per_thread, class T>
__global__ void __launch_bounds__(most_threads) norm_backward_kernel(BackwardOperands<T> o) {
  const Columns<count, per_thread> columns{static_cast<int>(o.width)};
  auto* scratch = shared_memory<Two>();  // an element per warp, then the sums
  auto* sums = reinterpret_cast<float*>(scratch + most_threads / warp_size);
  const std::int64_t sum_count = Traits::vectors * o.width;
  for (std::int64_t i = threadIdx.x; i < sum_count; i += blockDim.x)
    sums[i] = 0;
  __syncthreads();
  for (std::int64_t row = blockIdx.x; row < o.rows; row += gridDim.x) {
    float n[per_thread / count][count], g[per_thread / count][count];
    load_row(columns, o.input + row * o.width, n);
    load_row(columns, o.gradient + row * o.width, g);
    const float inverse = normalise<Traits>(columns, o.epsilon, n, &scratch[0].a);
    parameter_sums<Traits>(o, columns, n, g, sums);
    Two means{0, 0};
#pragma unroll
    for (int c = 0; c < per_thread / count; ++c)
#pragma unroll
      for (int j = 0; j < count; ++j)
        means = means + Two{g[c][j] * n[c][j], g[c][j]};
    means.a = combine_block(means.a, Sum{}, &scratch[0].a) / static_cast<float>(o.width);
    if constexpr (Traits::centred) {
      means.b = combine_block(means.b, Sum{}, &scratch[0].a) / static_cast<float>(o.width);
    } else {
      means.b = 0;
    }
#pragma unroll
    for (int c = 0; c < per_thread / count; ++c) {
      const std::int64_t at = row * o.width + columns.of(c);
      if (columns.of(c) >= o.width) continue;
      float past[count] = {};
      if (o.residual != nullptr) load(o.residual + at, past);
#pragma unroll
      for (int j = 0; j < count; ++j)
        g[c][j] = (g[c][j] - means.b - n[c][j] * means.a) * inverse + past[j];
      store(g[c], o.input_gradient + at);
    }
  }
  __syncthreads();
  for (std::int64_t i = threadIdx.x; i < sum_count; i += blockDim.x)
    o.partials[blockIdx.x * sum_count + i] = sums[i];
}

// visit(threads, vector length, elements per thread): as few elements per thread as 512 threads
// allow.
template <class T, class Visit>
void with_row(const char* name, bool is_aligned, std::int64_t width, Visit visit) {
  if (width <= 0 || width > norm_width_limit)
    refuse(name, "a width of " + std::to_string(width) + " is not within 1 ... " +
                     std::to_string(norm_width_limit));
  with_vector<T>(is_aligned, width, [&](auto count) {
    const auto pick = [&](auto per_thread) {
      const std::int64_t threads = divide_up(width, per_thread.value);
      visit(static_cast<unsigned>(divide_up(threads, warp_size) * warp_size), count, per_thread);
    };
    if (width <= 8 * most_threads) return pick(Constant<8>{});
    if (width <= 16 * most_threads) return pick(Constant<16>{});
    pick(Constant<32>{});
  });
}

}  // namespace

void norm_forward(const NormShape& shape, const void* input, const void* parameters, void* output,
                  StreamHandle stream) {
  if (shape.rows == 0) return;
  with_type("norm_forward", shape.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_norm("norm_forward", shape.function, [&](auto traits) {
      with_row<T>("norm_forward", aligned({input, parameters, output}), shape.width,
                  [&](unsigned threads, auto count, auto per_thread) {
                    launch({.name = "norm_forward",
                            .blocks = {static_cast<unsigned>(shape.rows)},
                            .threads = threads,
                            .shared_bytes = most_threads / warp_size * sizeof(float),
                            .stream = stream},
                           norm_forward_kernel<decltype(traits), decltype(count)::value,
                                               decltype(per_thread)::value, T>,
                           shape.width, shape.epsilon, as<T>(input), as<T>(parameters),
                           as<T>(output));
                  });
    });
  });
}

std::int64_t norm_backward_workspace(const NormShape& shape) {
  return parts_of(shape.rows) * 2 * shape.width * static_cast<std::int64_t>(sizeof(float));
}

void norm_backward(const NormShape& shape, const NormBackward& operands, Workspace workspace,
                   StreamHandle stream) {
  require_workspace("norm_backward", workspace, norm_backward_workspace(shape));
  auto* partials = static_cast<float*>(workspace.memory);
  const NormBackward& o = operands;
  const bool vectors =
      aligned({o.input, o.parameters, o.gradient, o.residual_gradient, o.input_gradient});
  with_norm("norm_backward", shape.function, [&](auto traits) {
    const std::int64_t sums = decltype(traits)::vectors * shape.width;
    with_type("norm_backward", shape.dtype, [&](auto type) {
      using T = typename decltype(type)::type;
      if (shape.rows == 0) return;
      const BackwardOperands<T> arguments{shape.rows,
                                          shape.width,
                                          shape.epsilon,
                                          as<T>(o.input),
                                          as<T>(o.parameters),
                                          as<T>(o.gradient),
                                          as<T>(o.residual_gradient),
                                          as<T>(o.input_gradient),
                                          partials};
      with_row<T>("norm_backward", vectors, shape.width,
                  [&](unsigned threads, auto count, auto per_thread) {
                    launch({.name = "norm_backward",
                            .blocks = {static_cast<unsigned>(parts_of(shape.rows))},
                            .threads = threads,
                            .shared_bytes = most_threads / warp_size * sizeof(Two) +
                                            static_cast<std::size_t>(sums) * sizeof(float),
                            .stream = stream},
                           norm_backward_kernel<decltype(traits), decltype(count)::value,
                                                decltype(per_thread)::value, T>,
                           arguments);
                  });
    });
    reduce_partials({.sums = partials, .parts = parts_of(shape.rows), .width = sums},
                    o.gradient_dtype, o.accumulate, o.parameter_gradient, stream);
  });
}

}  // namespace real::kernels
