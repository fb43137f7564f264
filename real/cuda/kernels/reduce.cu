// Sums over rows: the second stage of parameter gradients, and the gradient of a bias.
#include "real/cuda/kernels/norm.cuh"

namespace real::kernels {
namespace {

// A block owns 32 columns; its warps share the parts, and one warp adds theirs up.
constexpr int reduce_warps = 8;

template <class G>
__global__ void reduce_kernel(Partials partials, bool accumulate, G* gradient) {
  auto* sums = shared_memory<float>();
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * warp_size + lane_id();
  float sum = 0;
  if (column < partials.width) {
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

// Each block sums some of the rows; a thread owns `count` neighbouring columns, blockIdx.y tells
// which tile of columns.
constexpr unsigned column_threads = 128;

template <int count, class T>
__global__ void column_sum_kernel(std::int64_t rows, std::int64_t width, const T* values,
                                  float* partials) {
  const std::int64_t tile = static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x;
  const std::int64_t column = tile * count;
  if (column >= width) return;
  float sum[count] = {};
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    float x[count];
    load(values + row * width + column, x);
#pragma unroll
    for (int j = 0; j < count; ++j)
      sum[j] += x[j];
  }
  for (int j = 0; j < count; ++j)
    partials[blockIdx.x * width + column + j] = sum[j];
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
  return parts_of(shape.rows) * shape.width * static_cast<std::int64_t>(sizeof(float));
}

void bias_gradient(const ColumnSum& shape, const void* gradient, void* bias_gradient,
                   Workspace workspace, StreamHandle stream) {
  if (shape.width == 0) return;
  require_workspace("bias_gradient", workspace, bias_gradient_workspace(shape));
  auto* partials = static_cast<float*>(workspace.memory);
  const std::int64_t parts = parts_of(shape.rows);
  with_type("bias_gradient", shape.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_vector<T>(aligned({gradient}), shape.width, [&](auto count) {
      constexpr int n = decltype(count)::value;
      const auto tiles = static_cast<unsigned>(divide_up(shape.width / n, column_threads));
      if (parts == 0) return;
      launch({.name = "bias_gradient",
              .blocks = {static_cast<unsigned>(parts), tiles},
              .threads = column_threads,
              .stream = stream},
             column_sum_kernel<n, T>, shape.rows, shape.width, as<T>(gradient), partials);
    });
  });
  reduce_partials({.sums = partials, .parts = parts, .width = shape.width}, shape.gradient_dtype,
                  shape.accumulate, bias_gradient, stream);
}

}  // namespace real::kernels
