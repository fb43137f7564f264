// Casts to 8 bits with a scale for the tensor, in both orders at once, and these scales. Maxima are
// integers, those of the bits of magnitudes: their order is that of the numbers, NaN the largest,
// and the result does not depend on who comes first.
#include "real/cuda/kernels/float8.cuh"
#include "real/cuda/kernels/launch.cuh"

namespace real::kernels {
namespace {

constexpr unsigned block_threads = 256;

struct Larger {
  __device__ int operator()(int a, int b) const { return a > b ? a : b; }
};

__device__ __forceinline__ int magnitude(float value) {
#ifdef __CUDACC__
  return __float_as_int(value) & 0x7fffffff;
#else
  return std::bit_cast<int>(value) & 0x7fffffff;
#endif
}

// REQUIRES: every thread of the block gets here.
__device__ void raise(float* maximum, int value) {
  value = combine_block(value, Larger{}, shared_memory<int>());
  if (threadIdx.x == 0) atomicMax(reinterpret_cast<int*>(maximum), value);
}

template <int count, class T>
__global__ void find_maximum_kernel(std::int64_t vectors, const T* values, float* maximum) {
  int most = 0;
  for (std::int64_t i = global_thread(); i < vectors; i += global_threads()) {
    float x[count];
    load(values + i * count, x);
#pragma unroll
    for (int j = 0; j < count; ++j)
      most = Larger{}(most, magnitude(x[j]));
  }
  raise(maximum, most);
}

__global__ void make_scale_kernel(float largest_number, float* maximum, TensorScale* scale) {
  if (threadIdx.x != 0) return;
  scale->scale = scale_of(*maximum, largest_number, 1.0f);
  scale->inverse = 1.0f / scale->scale;
  *maximum = 0.0f;
}

__global__ void collect_maxima_kernel(std::int64_t tensors, float* maxima, float* all) {
  for (std::int64_t i = global_thread(); i < tensors; i += global_threads()) {
    all[i] = maxima[i];
    maxima[i] = 0.0f;
  }
}

// A block for each tensor.
__global__ void update_scales_kernel(float largest_number, TensorScale* scales, float* history,
                                     std::int32_t* updates, const float* all) {
  const std::int64_t tensor = blockIdx.x;
  float* own = history + tensor * scale_history;
  const auto slot = static_cast<std::int64_t>(updates[tensor] % scale_history);
  int most = magnitude(all[tensor]);
  for (std::int64_t i = threadIdx.x; i < scale_history; i += blockDim.x)
    if (i != slot) most = Larger{}(most, magnitude(own[i]));
  most = combine_block(most, Larger{}, shared_memory<int>());
  if (threadIdx.x != 0) return;
  own[slot] = all[tensor];
  ++updates[tensor];
  TensorScale& to = scales[tensor];
  to.scale = scale_of(__uint_as_float(static_cast<unsigned>(most)), largest_number, to.scale);
  to.inverse = 1.0f / to.scale;
}

// A tile is 64 x 64 elements, 4 x 4 of them a thread's.
constexpr int tile = 64, side = 4, threads_across = tile / side;
constexpr int pitch = threads_across + 1;  // words of a column in shared memory

struct TilePlace {
  std::int64_t row, column;  // of the tile
  int across, down;          // of the thread in it, in units of its own square
};
__device__ __forceinline__ TilePlace tile_place() {
  return {static_cast<std::int64_t>(blockIdx.y) * tile,
          static_cast<std::int64_t>(blockIdx.x) * tile,
          static_cast<int>(threadIdx.x) % threads_across,
          static_cast<int>(threadIdx.x) / threads_across};
}

// Codes of a thread's rows, a word each, to the turned order. REQUIRES: every thread gets here.
__device__ void store_turned(const TilePlace& place, std::int64_t rows, std::int64_t columns,
                             const std::uint32_t (&codes)[side], std::uint8_t* turned) {
  auto* words = shared_memory<std::uint32_t>();
#pragma unroll
  for (int j = 0; j < side; ++j) {
    std::uint32_t word = 0;
#pragma unroll
    for (int i = 0; i < side; ++i)
      word |= (codes[i] >> 8 * j & 0xffU) << 8 * i;
    words[(place.across * side + j) * pitch + place.down] = word;
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < side; ++i) {
    const int at = place.down + i * threads_across;
    const std::int64_t column = place.column + at, row = place.row + place.across * side;
    if (column < columns && row < rows)
      *reinterpret_cast<std::uint32_t*>(turned + column * rows + row) =
          words[at * pitch + place.across];
  }
  __syncthreads();
}

template <int format, bool vectors, class T>
__global__ void encode_kernel(std::int64_t rows, std::int64_t columns, Encoded operands) {
  const TilePlace place = tile_place();
  const std::int64_t column = place.column + place.across * side;
  const auto* values = static_cast<const T*>(operands.values);
  const TensorScale scale = *operands.scale;
  std::uint32_t codes[side] = {};
  int most = 0;
#pragma unroll
  for (int i = 0; i < side; ++i) {
    const std::int64_t row = place.row + place.down * side + i;
    if (row >= rows || column >= columns) continue;
    const T* from = values + row * columns + column;
    float x[side];
    if constexpr (vectors) {
      load(from, x);
    } else {
#pragma unroll
      for (int j = 0; j < side; ++j)
        x[j] = to_float(from[j]);
    }
#pragma unroll
    for (int j = 0; j < side; ++j) {
      most = Larger{}(most, magnitude(x[j]));
      x[j] *= scale.scale;
    }
    codes[i] = to_codes<static_cast<Float8>(format)>(x);
    if (operands.rows != nullptr)
      *reinterpret_cast<std::uint32_t*>(operands.rows + row * columns + column) = codes[i];
  }
  if (operands.turned != nullptr) store_turned(place, rows, columns, codes, operands.turned);
  if (operands.maximum != nullptr) raise(operands.maximum, most);
  if (operands.kept != nullptr && blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0)
    *operands.kept = scale;
}

__global__ void turn_codes_kernel(std::int64_t rows, std::int64_t columns,
                                  const std::uint8_t* codes, std::uint8_t* turned) {
  const TilePlace place = tile_place();
  const std::int64_t column = place.column + place.across * side;
  std::uint32_t own[side] = {};
#pragma unroll
  for (int i = 0; i < side; ++i) {
    const std::int64_t row = place.row + place.down * side + i;
    if (row < rows && column < columns)
      own[i] = *reinterpret_cast<const std::uint32_t*>(codes + row * columns + column);
  }
  store_turned(place, rows, columns, own, turned);
}

Shape tiles(const char* name, std::int64_t rows, std::int64_t columns, StreamHandle stream) {
  if (rows % side != 0 || columns % side != 0) refuse(name, "works on multiples of 4 only");
  return {.name = name,
          .blocks = {static_cast<unsigned>(divide_up(columns, tile)),
                     static_cast<unsigned>(divide_up(rows, tile))},
          .threads = block_threads,
          .shared_bytes = tile * pitch * sizeof(std::uint32_t),
          .stream = stream};
}

}  // namespace

void encode(const CodedShape& shape, const Encoded& operands, StreamHandle stream) {
  if (shape.scaling != Scaling::tensor) refuse("encode", "has one scale for a tensor only");
  if (shape.rows == 0 || shape.columns == 0) return;
  const Shape grid = tiles("encode", shape.rows, shape.columns, stream);
  with_type("encode", shape.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    const auto start = [&](auto format, auto vectors) {
      launch(grid, encode_kernel<decltype(format)::value, decltype(vectors)::value != 0, T>,
             shape.rows, shape.columns, operands);
    };
    const auto choose = [&](auto format) {
      if (aligned({operands.values})) return start(format, Constant<1>{});
      start(format, Constant<0>{});
    };
    if (shape.format == Float8::e4m3) return choose(Constant<static_cast<int>(Float8::e4m3)>{});
    choose(Constant<static_cast<int>(Float8::e5m2)>{});
  });
}

void turn_codes(std::int64_t rows, std::int64_t columns, const std::uint8_t* codes,
                std::uint8_t* turned, StreamHandle stream) {
  if (rows == 0 || columns == 0) return;
  launch(tiles("turn_codes", rows, columns, stream), turn_codes_kernel, rows, columns, codes,
         turned);
}

void find_maximum(sim::DType dtype, std::int64_t elements, const void* values, float* maximum,
                  StreamHandle stream) {
  if (elements == 0) return;
  with_type("find_maximum", dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_vector<T>(aligned({values}), elements, [&](auto count) {
      constexpr int n = decltype(count)::value;
      launch({.name = "find_maximum",
              .blocks = {stride_blocks(elements / n, block_threads)},
              .threads = block_threads,
              .shared_bytes = block_threads / warp_size * sizeof(int),
              .stream = stream},
             find_maximum_kernel<n, T>, elements / n, as<T>(values), maximum);
    });
  });
}

void make_scale(Float8 format, float* maximum, TensorScale* scale, StreamHandle stream) {
  launch({.name = "make_scale", .stream = stream}, make_scale_kernel, largest(format), maximum,
         scale);
}

void collect_maxima(const DelayedScales& state, float* all, StreamHandle stream) {
  if (state.tensors == 0) return;
  launch({.name = "collect_maxima",
          .blocks = {stride_blocks(state.tensors, block_threads)},
          .threads = block_threads,
          .stream = stream},
         collect_maxima_kernel, state.tensors, state.maxima, all);
}

void update_scales(const DelayedScales& state, const float* all, StreamHandle stream) {
  if (state.tensors == 0) return;
  launch({.name = "update_scales",
          .blocks = {static_cast<unsigned>(state.tensors)},
          .threads = block_threads,
          .shared_bytes = block_threads / warp_size * sizeof(int),
          .stream = stream},
         update_scales_kernel, largest(state.format), state.scales, state.history, state.updates,
         all);
}

}  // namespace real::kernels
