// Kernels that work on the heads of rows [queries | keys | values]: norms of single heads, rotary
// embedding.
#include <numeric>

#include "real/cuda/kernels/context.cuh"
#include "real/cuda/kernels/norm.cuh"

namespace real::kernels {
namespace {

// Blocks that share the heads of a backward pass, and so the partial sums: two for every SM of an
// H100, a number of its own so that results do not depend on the device.
constexpr std::int64_t partial_blocks = 264;
std::int64_t parts_of(std::int64_t tokens) {
  return tokens < partial_blocks ? tokens : partial_blocks;
}

constexpr unsigned block_threads = 256;
constexpr int block_warps = block_threads / warp_size;
constexpr int most_per_lane = 8;  // elements of a head that a lane holds: head_dim up to 256

template <class T>
__global__ void copy_columns_kernel(std::int64_t rows, std::int64_t width, std::int64_t row_width,
                                    const T* from, T* to) {
  for (std::int64_t i = global_thread(); i < rows * width; i += global_threads()) {
    const std::int64_t at = i / width * row_width + i % width;
    to[at] = from[at];
  }
}

// The last `width` elements of rows pass through where output and input are two buffers.
template <class T>
void copy_columns(const HeadsShape& shape, std::int64_t width, const T* from, T* to,
                  StreamHandle stream) {
  if (from == to || shape.tokens == 0) return;
  launch({.name = "copy of columns",
          .blocks = {stride_blocks(shape.tokens * width, block_threads)},
          .threads = block_threads,
          .stream = stream},
         copy_columns_kernel<T>, shape.tokens, width, shape.row(), from + shape.row() - width,
         to + shape.row() - width);
}
template <class T>
void copy_values(const HeadsShape& shape, const T* from, T* to, StreamHandle stream) {
  copy_columns(shape, shape.kv_heads * shape.head_dim, from, to, stream);
}

struct HeadRows {
  std::int64_t tokens, heads, kv_heads, head_dim;
  float epsilon;
  __device__ std::int64_t row() const { return (heads + 2 * kv_heads) * head_dim; }
  __device__ std::int64_t saved_row() const { return (heads + kv_heads) * head_dim; }
};

// A warp's head: lane l holds elements l, l + 32, ... Becomes normalised; returns 1 / deviation.
template <class Traits>
__device__ __forceinline__ float normalise_head(std::int64_t head_dim, float epsilon,
                                                float (&x)[most_per_lane]) {
  const float inverse_width = 1.0f / static_cast<float>(head_dim);
  float mean = 0;
  if constexpr (Traits::centred) {
#pragma unroll
    for (int i = 0; i < most_per_lane; ++i)
      mean += x[i];
    mean = combine_warp(mean, Sum{}) * inverse_width;
  }
  float squares = 0;
#pragma unroll
  for (int i = 0; i < most_per_lane; ++i) {
    x[i] = i * warp_size < head_dim ? x[i] - mean : 0.0f;
    squares += x[i] * x[i];
  }
  const float inverse = 1.0f / sqrtf(combine_warp(squares, Sum{}) * inverse_width + epsilon);
#pragma unroll
  for (int i = 0; i < most_per_lane; ++i)
    x[i] *= inverse;
  return inverse;
}

template <class T>
__device__ __forceinline__ void load_head(std::int64_t head_dim, const T* from,
                                          float (&x)[most_per_lane]) {
#pragma unroll
  for (int i = 0; i < most_per_lane; ++i)
    x[i] = i * warp_size < head_dim ? to_float(from[lane_id() + i * warp_size]) : 0.0f;
}

template <class Traits, class T>
__global__ void head_norm_forward_kernel(HeadRows rows, const T* input, const T* parameters,
                                         T* output, T* saved) {
  const std::int64_t normalised = rows.heads + rows.kv_heads;
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * block_warps;
  for (std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * block_warps + warp_id();
       item < rows.tokens * normalised; item += warps) {
    const std::int64_t token = item / normalised;
    const std::int64_t head = item % normalised;
    const std::int64_t at = token * rows.row() + head * rows.head_dim;
    const T* scale = parameters + (head < rows.heads ? 0 : Traits::vectors * rows.head_dim);
    float x[most_per_lane];
    load_head(rows.head_dim, input + at, x);
    if (saved != nullptr) {
      T* keep = saved + token * rows.saved_row() + head * rows.head_dim;
      for (int i = 0; i * warp_size < rows.head_dim; ++i)
        keep[lane_id() + i * warp_size] = input[at + lane_id() + i * warp_size];
    }
    normalise_head<Traits>(rows.head_dim, rows.epsilon, x);
#pragma unroll
    for (int i = 0; i < most_per_lane; ++i) {
      const int element = lane_id() + i * warp_size;
      if (element >= rows.head_dim) continue;
      float y = x[i] * to_float(scale[element]);
      if constexpr (Traits::shifted) y += to_float(scale[rows.head_dim + element]);
      output[at + element] = from_float<T>(y);
    }
  }
}

// blockIdx.y: 0 queries, 1 keys. Partials: [blocks, queries' and keys' parameters].
template <class Traits, class T>
__global__ void head_norm_backward_kernel(HeadRows rows, const T* saved, const T* parameters,
                                          const T* gradient, T* input_gradient, float* partials) {
  const bool keys = blockIdx.y == 1;
  const std::int64_t heads = keys ? rows.kv_heads : rows.heads;
  const std::int64_t first = keys ? rows.heads : 0;
  const std::int64_t own = Traits::vectors * rows.head_dim;
  const T* scale = parameters + (keys ? own : 0);
  float sums[2][most_per_lane] = {};
  for (std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * block_warps + warp_id();
       item < rows.tokens * heads; item += static_cast<std::int64_t>(gridDim.x) * block_warps) {
    const std::int64_t token = item / heads;
    const std::int64_t column = (first + item % heads) * rows.head_dim;
    float n[most_per_lane], g[most_per_lane];
    load_head(rows.head_dim, saved + token * rows.saved_row() + column, n);
    load_head(rows.head_dim, gradient + token * rows.row() + column, g);
    const float inverse = normalise_head<Traits>(rows.head_dim, rows.epsilon, n);
    float along = 0, mean = 0;
#pragma unroll
    for (int i = 0; i < most_per_lane; ++i) {
      const int element = lane_id() + i * warp_size;
      sums[0][i] += g[i] * n[i];
      sums[1][i] += g[i];
      g[i] *= element < rows.head_dim ? to_float(scale[element]) : 0.0f;
      along += g[i] * n[i];
      mean += g[i];
    }
    along = combine_warp(along, Sum{}) / static_cast<float>(rows.head_dim);
    mean = Traits::centred ? combine_warp(mean, Sum{}) / static_cast<float>(rows.head_dim) : 0.0f;
    T* to = input_gradient + token * rows.row() + column;
#pragma unroll
    for (int i = 0; i < most_per_lane; ++i) {
      const int element = lane_id() + i * warp_size;
      if (element < rows.head_dim)
        to[element] = from_float<T>((g[i] - mean - n[i] * along) * inverse);
    }
  }
  auto* shared = shared_memory<float>();  // [warps, own]
#pragma unroll
  for (int i = 0; i < most_per_lane; ++i) {
    const int element = lane_id() + i * warp_size;
    if (element >= rows.head_dim) continue;
    for (int v = 0; v < Traits::vectors; ++v)
      shared[warp_id() * own + v * rows.head_dim + element] = sums[v][i];
  }
  __syncthreads();
  for (std::int64_t i = threadIdx.x; i < own; i += blockDim.x) {
    float sum = 0;
    for (int warp = 0; warp < block_warps; ++warp)
      sum += shared[warp * own + i];
    partials[(static_cast<std::int64_t>(blockIdx.x) * 2 + blockIdx.y) * own + i] = sum;
  }
}

HeadRows head_rows(const char* name, const HeadsShape& shape, float epsilon) {
  if (shape.head_dim % warp_size != 0 || shape.head_dim > most_per_lane * warp_size)
    refuse(name, "a head of " + std::to_string(shape.head_dim) +
                     " elements is no multiple of 32 up to 256");
  return {shape.tokens, shape.heads, shape.kv_heads, shape.head_dim, epsilon};
}

// A thread turns `count` pairs of one head.
template <int count, class T>
__global__ void rotary_kernel(HeadRows rows, std::int64_t half, std::int64_t sequence,
                              ContextShare share, float direction, const float* table,
                              const T* input, T* output) {
  const std::int64_t per_head = half / count;
  const std::int64_t heads = rows.heads + rows.kv_heads;
  for (std::int64_t item = global_thread(); item < rows.tokens * heads * per_head;
       item += global_threads()) {
    const std::int64_t pair = item % per_head * count;
    const std::int64_t head = item / per_head % heads;
    const std::int64_t token = item / per_head / heads;
    const std::int64_t at = token * rows.row() + head * rows.head_dim + pair;
    const std::int64_t position = position_of(share, token % sequence, sequence);
    const float* turn = table + (position * half + pair) * 2;
    float a[count], b[count];
    load(input + at, a);
    load(input + at + half, b);
#pragma unroll
    for (int j = 0; j < count; ++j) {
      const float2 by = reinterpret_cast<const float2*>(turn)[j];
      const float sine = by.y * direction;
      const float turned = a[j] * by.x - b[j] * sine;
      b[j] = b[j] * by.x + a[j] * sine;
      a[j] = turned;
    }
    store(a, output + at);
    store(b, output + at + half);
  }
}

// In double: a float's angle at position 8191 is wrong by 5e-4.
__global__ void rotary_table_kernel(std::int64_t sequence, std::int64_t half, double base,
                                    float* table) {
  for (std::int64_t i = global_thread(); i < sequence * half; i += global_threads()) {
    const double exponent = -static_cast<double>(i % half) / static_cast<double>(half);
    const double angle = static_cast<double>(i / half) * pow(base, exponent);
    table[2 * i] = static_cast<float>(cos(angle));
    table[2 * i + 1] = static_cast<float>(sin(angle));
  }
}

}  // namespace

void head_norm_forward(const HeadsShape& shape, const HeadNorm& norm, const void* input,
                       const void* parameters, void* output, void* saved, StreamHandle stream) {
  const HeadRows rows = head_rows("head_norm_forward", shape, norm.epsilon);
  const std::int64_t items = shape.tokens * (shape.heads + shape.kv_heads);
  if (items == 0) return;
  with_type("head_norm_forward", shape.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_norm("head_norm_forward", norm.function, [&](auto traits) {
      launch({.name = "head_norm_forward",
              .blocks = {stride_blocks(items, block_warps)},
              .threads = block_threads,
              .stream = stream},
             head_norm_forward_kernel<decltype(traits), T>, rows, as<T>(input), as<T>(parameters),
             as<T>(output), as<T>(saved));
    });
    copy_values(shape, as<T>(input), as<T>(output), stream);
  });
}

std::int64_t head_norm_backward_workspace(const HeadsShape& shape) {
  return parts_of(shape.tokens) * 4 * shape.head_dim * static_cast<std::int64_t>(sizeof(float));
}

void head_norm_backward(const HeadsShape& shape, const HeadNorm& norm,
                        const HeadNormBackward& operands, Workspace workspace,
                        StreamHandle stream) {
  const HeadRows rows = head_rows("head_norm_backward", shape, norm.epsilon);
  require_workspace("head_norm_backward", workspace, head_norm_backward_workspace(shape));
  auto* partials = static_cast<float*>(workspace.memory);
  const std::int64_t parts = parts_of(shape.tokens);
  with_norm("head_norm_backward", norm.function, [&](auto traits) {
    const std::int64_t own = decltype(traits)::vectors * shape.head_dim;
    with_type("head_norm_backward", shape.dtype, [&](auto type) {
      using T = typename decltype(type)::type;
      if (parts == 0) return;
      launch({.name = "head_norm_backward",
              .blocks = {static_cast<unsigned>(parts), 2},
              .threads = block_threads,
              .shared_bytes = static_cast<std::size_t>(block_warps * own) * sizeof(float),
              .stream = stream},
             head_norm_backward_kernel<decltype(traits), T>, rows, as<T>(operands.saved),
             as<T>(operands.parameters), as<T>(operands.gradient), as<T>(operands.input_gradient),
             partials);
      copy_values(shape, as<T>(operands.gradient), as<T>(operands.input_gradient), stream);
    });
    if (operands.parameter_gradient == nullptr) return;
    reduce_partials({.sums = partials, .parts = parts, .width = 2 * own}, operands.gradient_dtype,
                    operands.accumulate, operands.parameter_gradient, stream);
  });
}

std::int64_t rotary_table_bytes(std::int64_t sequence, std::int64_t turned) {
  return sequence * turned * static_cast<std::int64_t>(sizeof(float));
}

void fill_rotary_table(std::int64_t sequence, std::int64_t turned, double base, float* table,
                       StreamHandle stream) {
  const std::int64_t items = sequence * (turned / 2);
  if (items == 0) return;
  launch({.name = "rotary_table",
          .blocks = {stride_blocks(items, block_threads)},
          .threads = block_threads,
          .stream = stream},
         rotary_table_kernel, sequence, turned / 2, base, table);
}

void rotary(const HeadsShape& shape, bool backward, const float* table, const void* input,
            void* output, StreamHandle stream) {
  const std::int64_t half = shape.turned() / 2;
  if (shape.turned() % 2 != 0) refuse("rotary", "the turned part of a head is odd");
  const std::int64_t items = shape.tokens * (shape.heads + shape.kv_heads) * half;
  if (items == 0) return;
  const HeadRows rows{shape.tokens, shape.heads, shape.kv_heads, shape.head_dim, 0};
  const bool is_part = shape.turned() < shape.head_dim;
  with_type("rotary", shape.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    const std::int64_t copied = is_part ? shape.row() : shape.kv_heads * shape.head_dim;
    copy_columns(shape, copied, as<T>(input), as<T>(output), stream);
    with_vector<T>(aligned({input, output}), std::gcd(half, shape.head_dim), [&](auto count) {
      constexpr int n = decltype(count)::value;
      launch({.name = "rotary",
              .blocks = {stride_blocks(items / n, block_threads)},
              .threads = block_threads,
              .stream = stream},
             rotary_kernel<n, T>, rows, half, shape.sequence, shape.context,
             backward ? -1.0f : 1.0f, table, as<T>(input), as<T>(output));
    });
  });
}

}  // namespace real::kernels
