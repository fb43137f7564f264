// Sums over rows: the second stage of parameter gradients, and the gradient of a bias.
#include <algorithm>

#include "real/cuda/kernels/norm.cuh"

namespace real::kernels {
namespace {

// A block owns 32 columns; its warps share the parts, and one warp adds theirs up.
constexpr int reduce_warps = 16;

template <class G>
__global__ void reduce_kernel(Partials partials, bool accumulate, G* gradient) {
  auto* sums = shared_memory<float>();
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * warp_size + lane_id();
  float sum = 0;
  if (column < partials.width) {
#pragma unroll 8
    for (std::int64_t part = warp_id(); part < partials.parts; part += reduce_warps)
      sum += partials.sums[part * partials.width + column];
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (warp_id() != 0 || column >= partials.width) return;
  for (int i = 1; i < reduce_warps; ++i)
    sum += sums[i * warp_size + lane_id()];
  if (accumulate) sum += to_float(gradient[column]);
  gradient[column] = from_float<G>(sum);
}

// A block owns a tile of columns, `count` neighbouring ones of each lane, and some of the rows,
// which its warps share; blockIdx.x is the part, blockIdx.y the tile.
constexpr int sum_warps = 8;
// Rows that a warp reads at once: 128 bytes of each lane are under way, and two blocks of an SM
// have 64 KiB so, three times what HBM needs (3.35 TB/s times 0.7 us, on 132 SMs of an H100).
constexpr int rows_at_once = 8;

template <int count, class T>
__global__ void __launch_bounds__(sum_warps* warp_size, 4)
    column_sum_kernel(std::int64_t rows, std::int64_t width, const T* values, float* partials) {
  using Values = Vector<T, count>;
  const std::int64_t tile = static_cast<std::int64_t>(blockIdx.y) * warp_size + lane_id();
  const std::int64_t column = tile * count;
  const bool inside = column < width;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * sum_warps;
  float sum[count] = {};
  const auto add = [&](const Values& x) {
#pragma unroll
    for (int j = 0; j < count; ++j)
      sum[j] += to_float(x.at[j]);
  };
  const auto row_at = [&](std::int64_t row) {
    return *reinterpret_cast<const Values*>(values + row * width + column);
  };
  std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * sum_warps + warp_id();
  if (inside) {
    for (; row + (rows_at_once - 1) * step < rows; row += rows_at_once * step) {
      Values x[rows_at_once];
#pragma unroll
      for (int k = 0; k < rows_at_once; ++k)
        x[k] = row_at(row + k * step);
#pragma unroll
      for (int k = 0; k < rows_at_once; ++k)
        add(x[k]);
    }
    for (; row < rows; row += step)
      add(row_at(row));
  }
  auto* sums = shared_memory<float>();  // [warps, count, lanes]
#pragma unroll
  for (int j = 0; j < count; ++j)
    sums[(warp_id() * count + j) * warp_size + lane_id()] = sum[j];
  __syncthreads();
  if (warp_id() != 0 || !inside) return;
#pragma unroll
  for (int j = 0; j < count; ++j)
    for (int warp = 1; warp < sum_warps; ++warp)
      sum[j] += sums[(warp * count + j) * warp_size + lane_id()];
  store(sum, partials + blockIdx.x * width + column);
}

// Parts of the rows: enough blocks to fill the largest GPU (1056: 8 on each SM of an H100, a number
// of its own so that results do not depend on the device), unless warps would have no whole round.
// By the widest vectors, so that the workspace does not depend on alignment.
std::int64_t column_parts(const ColumnSum& shape) {
  constexpr std::int64_t blocks = 1056;
  const std::int64_t columns = warp_size * 16 / sim::bytes_of(shape.dtype);
  const std::int64_t most = divide_up(blocks, divide_up(shape.width, columns));
  return std::min(most, divide_up(shape.rows, sum_warps * rows_at_once));
}

}  // namespace

void reduce_partials(const Partials& partials, sim::DType dtype, bool accumulate, void* gradient,
                     StreamHandle stream) {
  with_type("reduce_partials", dtype, [&](auto type) {
    using G = typename decltype(type)::type;
    launch({.name = "reduce_partials",
            .blocks = {static_cast<unsigned>(divide_up(partials.width, warp_size))},
            .threads = reduce_warps * warp_size,
            .shared_bytes = reduce_warps * warp_size * sizeof(float),
            .stream = stream},
           reduce_kernel<G>, partials, accumulate, as<G>(gradient));
  });
}

std::int64_t bias_gradient_workspace(const ColumnSum& shape) {
  if (shape.width == 0) return 0;
  return column_parts(shape) * shape.width * static_cast<std::int64_t>(sizeof(float));
}

void bias_gradient(const ColumnSum& shape, const void* gradient, void* bias_gradient,
                   Workspace workspace, StreamHandle stream) {
  if (shape.width == 0) return;
  require_workspace("bias_gradient", workspace, bias_gradient_workspace(shape));
  auto* partials = static_cast<float*>(workspace.memory);
  const std::int64_t parts = column_parts(shape);
  with_type("bias_gradient", shape.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_vector<T>(aligned({gradient}), shape.width, [&](auto count) {
      constexpr int n = decltype(count)::value;
      const auto tiles = static_cast<unsigned>(divide_up(shape.width, warp_size * n));
      if (parts == 0) return;
      launch({.name = "bias_gradient",
              .blocks = {static_cast<unsigned>(parts), tiles},
              .threads = sum_warps * warp_size,
              .shared_bytes = sum_warps * warp_size * n * sizeof(float),
              .stream = stream},
             column_sum_kernel<n, T>, shape.rows, shape.width, as<T>(gradient), partials);
    });
  });
  reduce_partials({.sums = partials, .parts = parts, .width = shape.width}, shape.gradient_dtype,
                  shape.accumulate, bias_gradient, stream);
}

}  // namespace real::kernels
