// Norms over rows, forward. A block holds a row in registers: `per_thread` elements of each thread,
// so that the row is read once.
#include "real/cuda/kernels/norm.cuh"

namespace real::kernels {
namespace {

constexpr int most_threads = 1024;
static_assert(16 * most_threads == norm_width_limit);

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

// visit(threads, elements per thread).
template <class Visit>
void with_row(std::int64_t width, Visit visit) {
  const auto pick = [&](auto per_thread) {
    const std::int64_t threads = divide_up(width, per_thread.value);
    visit(static_cast<unsigned>(divide_up(threads, warp_size) * warp_size), per_thread);
  };
  if (width <= 8 * most_threads) return pick(Constant<8>{});
  pick(Constant<16>{});
}

}  // namespace

void require_norm_width(const char* kernel, std::int64_t width) {
  if (width <= 0 || width > norm_width_limit)
    refuse(kernel, "a width of " + std::to_string(width) + " is not within 1 ... " +
                       std::to_string(norm_width_limit));
}

void norm_forward(const NormShape& shape, const void* input, const void* parameters, void* output,
                  StreamHandle stream) {
  require_norm_width("norm_forward", shape.width);
  if (shape.rows == 0) return;
  const bool whole = shape.width * sim::bytes_of(shape.dtype) % 16 == 0;
  if (!whole || !aligned({input, parameters, output}))
    return norm_forward_plain(shape, input, parameters, output, stream);
  with_type("norm_forward", shape.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    constexpr int count = 16 / sizeof(T);
    with_norm("norm_forward", shape.function, [&](auto traits) {
      with_row(shape.width, [&](unsigned threads, auto per_thread) {
        launch({.name = "norm_forward",
                .blocks = {static_cast<unsigned>(shape.rows)},
                .threads = threads,
                .shared_bytes = most_threads / warp_size * sizeof(float),
                .stream = stream},
               norm_forward_kernel<decltype(traits), count, decltype(per_thread)::value, T>,
               shape.width, shape.epsilon, as<T>(input), as<T>(parameters), as<T>(output));
      });
    });
  });
}

}  // namespace real::kernels
