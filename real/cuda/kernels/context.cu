// Context parallelism beside attention: parts of outputs and gradients that are merged,
// and copies of columns for the exchanges.
#include <bit>
#include <numeric>

#include "real/cuda/kernels/context.cuh"
#include "real/cuda/kernels/launch.cuh"
#include "real/engine/kernels/context.hpp"

namespace real::kernels {
namespace {

constexpr unsigned block_threads = 256;

struct Outputs {
  std::int64_t tokens, heads, head_dim;
};

// out = (out e^a + part e^b) / (e^a + e^b) with a and b the log-sum-exps. As many lanes as a row of
// a head has vectors, up to a power of two. A query that sees no key has the lowest float: e^a is
// then 0, or, beside another such part, both outputs are.
template <class T>
__global__ void merge_outputs_kernel(Outputs s, int lanes, const T* part, const float* part_sums,
                                     T* output, float* sums) {
  constexpr int count = 16 / sizeof(T);
  const std::int64_t items = s.tokens * s.heads;
  const int column = lane_id() % lanes * count;
  const std::int64_t step = global_threads() / lanes;
  // All lanes of a warp go as many rounds: they meet.
  for (std::int64_t first = global_thread() / warp_size * (warp_size / lanes); first < items;
       first += step) {
    const std::int64_t item = first + lane_id() / lanes;
    const bool valid = item < items;
    const std::int64_t at = item % s.heads * s.tokens + item / s.heads;
    const float own = valid ? sums[at] : 0.0f, other = valid ? part_sums[at] : 0.0f;
    __syncwarp();  // all have read the sum that is written below
    if (!valid || column >= s.head_dim) continue;
    const float larger = fmaxf(own, other);
    const float both = larger + logf(expf(own - larger) + expf(other - larger));
    const float keep = expf(own - both), take = expf(other - both);
    float x[count], y[count];
    load(output + item * s.head_dim + column, x);
    load(part + item * s.head_dim + column, y);
#pragma unroll
    for (int j = 0; j < count; ++j)
      x[j] = x[j] * keep + y[j] * take;
    store(x, output + item * s.head_dim + column);
    if (column == 0) sums[at] = both;
  }
}

struct GradientRows {
  std::int64_t tokens, row, queries;
  MergeTurn turn;
};

template <int count, class T>
__global__ void merge_gradients_kernel(GradientRows s, const T* part, T* gradient, T* keys) {
  const std::int64_t vectors = s.row / count;
  for (std::int64_t i = global_thread(); i < s.tokens * vectors; i += global_threads()) {
    const std::int64_t token = i / vectors, column = i % vectors * count;
    const bool of_query = column < s.queries;
    T* own = gradient + token * s.row + column;
    T* sum = of_query ? own : keys + token * (s.row - s.queries) + column - s.queries;
    float x[count], y[count];
    load(part + i * count, x);
    if (s.turn != MergeTurn::first) {
      load(sum, y);
#pragma unroll
      for (int j = 0; j < count; ++j)
        x[j] += y[j];
    }
    store(x, sum);
    if (!of_query && s.turn != MergeTurn::middle) store(x, own);
  }
}

template <int count, bool to_message, class T>
__global__ void order_kernel(HeadExchange e, const T* from, T* to) {
  const std::int64_t tokens = e.sequences * e.held, vectors = e.width / count;
  for (std::int64_t i = global_thread(); i < e.ranks * tokens * vectors; i += global_threads()) {
    const std::int64_t rank = i / vectors / tokens, token = i / vectors % tokens;
    std::int64_t row = token, column = e.first + i % vectors * count;
    if (e.all_tokens)
      row =
          token / e.held * e.held * e.ranks + position_of({e.ranks, rank}, token % e.held, e.held);
    else
      column += rank * e.width;
    const std::int64_t in_tensor = row * e.row + column, in_message = i * count;
    using Words = Vector<T, count>;
    *reinterpret_cast<Words*>(to + (to_message ? in_message : in_tensor)) =
        *reinterpret_cast<const Words*>(from + (to_message ? in_tensor : in_message));
  }
}

template <bool to_message>
void order(const char* name, const HeadExchange& shape, const void* from, void* to,
           StreamHandle stream) {
  const std::int64_t items = shape.message();
  if (items == 0) return;
  with_type(name, shape.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    const std::int64_t width = std::gcd(std::gcd(shape.width, shape.row), shape.first);
    with_vector<T>(aligned({from, to}), width, [&](auto count) {
      constexpr int n = decltype(count)::value;
      launch({.name = name,
              .blocks = {stride_blocks(items / n, block_threads)},
              .threads = block_threads,
              .stream = stream},
             order_kernel<n, to_message, T>, shape, as<T>(from), as<T>(to));
    });
  });
}

}  // namespace

void merge_outputs(const SliceShape& shape, const MergedOutputs& operands, StreamHandle stream) {
  const HeadsShape& heads = shape.heads;
  const std::int64_t items = heads.tokens * heads.heads;
  if (items == 0) return;
  with_type("merge_outputs", heads.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    if (heads.head_dim % 16 != 0 || heads.head_dim > 128 ||
        !aligned({operands.part, operands.output}))
      refuse("merge_outputs", "works on aligned heads of a multiple of 16 up to 128 elements");
    const auto vectors = static_cast<unsigned>(heads.head_dim) * sizeof(T) / 16;
    const auto lanes = static_cast<int>(std::bit_ceil(vectors));
    launch({.name = "merge_outputs",
            .blocks = {stride_blocks(items, block_threads / lanes)},
            .threads = block_threads,
            .stream = stream},
           merge_outputs_kernel<T>, Outputs{heads.tokens, heads.heads, heads.head_dim}, lanes,
           as<T>(operands.part), operands.part_sums, as<T>(operands.output), operands.log_sum_exp);
  });
}

void merge_gradients(const SliceShape& shape, const MergedGradients& operands,
                     StreamHandle stream) {
  const HeadsShape& heads = shape.heads;
  const std::int64_t items = heads.tokens * heads.row(), queries = heads.heads * heads.head_dim;
  if (items == 0) return;
  with_type("merge_gradients", heads.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    const bool all = aligned({operands.part, operands.qkv_gradient, operands.keys_gradient});
    with_vector<T>(all, std::gcd(heads.row(), queries), [&](auto count) {
      constexpr int n = decltype(count)::value;
      launch({.name = "merge_gradients",
              .blocks = {stride_blocks(items / n, block_threads)},
              .threads = block_threads,
              .stream = stream},
             merge_gradients_kernel<n, T>,
             GradientRows{heads.tokens, heads.row(), queries, operands.turn}, as<T>(operands.part),
             as<T>(operands.qkv_gradient), as<T>(operands.keys_gradient));
    });
  });
}

void order_by_rank(const HeadExchange& shape, const void* tensor, void* message,
                   StreamHandle stream) {
  order<true>("order_by_rank", shape, tensor, message, stream);
}

void order_by_token(const HeadExchange& shape, const void* message, void* tensor,
                    StreamHandle stream) {
  order<false>("order_by_token", shape, message, tensor, stream);
}

}  // namespace real::kernels
