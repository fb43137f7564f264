// Attention backward: FlashAttention-2 (Dao 2023), algorithm 2, as two kernels of one form, so that
// every gradient has one writer and needs no atomics: the price is two of seven products twice.
//
//   P = exp(scale Q K^T - log-sum-exp), dP = dO V^T, delta = rowsum(dO O), dS = P (dP - delta)
//   queries: dQ = scale dS K         over tiles of keys
//   keys:    dV = P^T dO, dK = scale dS^T Q  over tiles of queries, of all heads that share them
//
// A block owns 64 rows (16 of each warp) and works on transposed products where it owns keys: in
// both cases P and dS lie in registers as operand A of what is summed.
#include "real/cuda/kernels/attention.cuh"

namespace real::kernels {
namespace {

constexpr unsigned delta_threads = 256;

struct BackwardOperands {
  const Bf16* qkv;
  const float* log_sum_exp;
  const float* delta;
  const Bf16* gradient;
  Bf16* qkv_gradient;
};

// delta[head, token], a warp each.
template <class T>
__global__ void delta_kernel(AttentionSizes s, const T* output, const T* gradient, float* delta) {
  const std::int64_t warps = global_threads() / warp_size;
  for (std::int64_t item = global_thread() / warp_size;
       item < static_cast<std::int64_t>(s.tokens) * s.heads; item += warps) {
    float sum = 0;
    for (int i = lane_id(); i < s.head_dim; i += warp_size)
      sum += to_float(output[item * s.head_dim + i]) * to_float(gradient[item * s.head_dim + i]);
    sum = combine_warp(sum, Sum{});
    if (lane_id() == 0) delta[item % s.heads * s.tokens + item / s.heads] = sum;
  }
}

// Shared memory: the own tiles (queries and their gradients, or keys and values), two of each of
// the other side, and log-sum-exp (in powers of two) and delta of the queries, two tiles of them.
template <int width>
struct BackwardTiles {
  static constexpr int own_elements = tile_rows * width;
  static constexpr int other_elements = walk_rows<width> * width;
  static constexpr int bytes = (2 * own_elements + 4 * other_elements) * 2 + 4 * tile_rows * 4;
  Bf16* memory;
  __device__ Tile<width> own(int which) const { return {memory + which * own_elements}; }
  __device__ Tile<width> other(int which, int i) const {
    return {memory + 2 * own_elements + (2 * which + (i & 1)) * other_elements};
  }
  __device__ float* log_sums(int i) const {
    return reinterpret_cast<float*>(memory + 2 * own_elements + 4 * other_elements) +
           (i & 1) * tile_rows;
  }
  __device__ float* deltas(int i) const { return log_sums(i) + 2 * tile_rows; }
};

// A query beyond the sequence has an infinite sum: its probabilities are zero.
template <int rows, int width>
__device__ __forceinline__ void load_statistics(const AttentionSizes& s, const BackwardOperands& o,
                                                const BackwardTiles<width>& tiles, int i, int head,
                                                int first_query) {
  if (threadIdx.x >= rows) return;
  const int query = first_query + static_cast<int>(threadIdx.x);
  const std::int64_t at = static_cast<std::int64_t>(head) * s.tokens +
                          static_cast<std::int64_t>(blockIdx.z) * s.sequence + query;
  const bool valid = query < s.sequence;
  tiles.log_sums(i)[threadIdx.x] = valid ? o.log_sum_exp[at] * log2_e : __builtin_huge_valf();
  tiles.deltas(i)[threadIdx.x] = valid ? o.delta[at] : 0.0f;
}

// scores become P, dp becomes dS. Rows are queries, or keys; the statistics belong to the queries.
template <bool own_keys, int n_tiles>
__device__ __forceinline__ void differentiate(const AttentionSizes& s, int first_row,
                                              int row_in_tile, int first_column,
                                              const float* log_sums, const float* deltas,
                                              float (&scores)[1][n_tiles][4],
                                              float (&dp)[1][n_tiles][4]) {
#pragma unroll
  for (int n = 0; n < n_tiles; ++n)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int row = row_in_tile + j / 2 * 8 + lane_id() / 4;
      const int column = n * 8 + lane_id() % 4 * 2 + j % 2;
      const int statistic = own_keys ? column : row;
      const int key = own_keys ? first_row + row : first_column + column;
      const int query = own_keys ? first_column + column : first_row + row;
      const bool masked = key >= s.sequence || (s.causal && key > query);
      const float p =
          masked ? 0.0f : power_of_two(scores[0][n][j] * (s.scale * log2_e) - log_sums[statistic]);
      scores[0][n][j] = p;
      dp[0][n][j] = p * (dp[0][n][j] - deltas[statistic]);
    }
}

// What a step of the walk needs of the other side: keys and values, or queries and gradients of one
// of the heads that share the own keys.
struct Step {
  int head, first;
};

template <bool own_keys, int width>
struct Walk {
  AttentionSizes s;
  BackwardOperands o;
  static constexpr int rows = walk_rows<width>;
  std::int64_t first_token;
  int begin;  // first own row
  int tiles_from, tiles_to;
  __device__ int heads() const { return own_keys ? s.heads / s.kv_heads : 1; }
  __device__ int steps() const { return heads() * (tiles_to - tiles_from); }
  __device__ Step step(int i) const {
    const int count = tiles_to - tiles_from;
    const int head = static_cast<int>(blockIdx.y) * heads() + i / count;
    return {head, (tiles_from + i % count) * rows};
  }
  __device__ void start(const BackwardTiles<width>& tiles, int i) const {
    const Step at = step(i);
    if constexpr (own_keys) {
      start_tile<width, rows>(tiles.other(0, i), s.query(o.qkv, first_token, at.head), at.first,
                              s.sequence, s.head_dim);
      start_tile<width, rows>(tiles.other(1, i), s.output(o.gradient, first_token, at.head),
                              at.first, s.sequence, s.head_dim);
      load_statistics<rows>(s, o, tiles, i, at.head, at.first);
    } else {
      const int kv = s.kv_head(at.head);
      start_tile<width, rows>(tiles.other(0, i), s.key(o.qkv, first_token, kv), at.first,
                              s.sequence, s.head_dim);
      start_tile<width, rows>(tiles.other(1, i), s.value(o.qkv, first_token, kv), at.first,
                              s.sequence, s.head_dim);
    }
  }
  __device__ void start_own(const BackwardTiles<width>& tiles) const {
    const int head = static_cast<int>(blockIdx.y);
    if constexpr (own_keys) {
      start_tile<width, tile_rows>(tiles.own(0), s.key(o.qkv, first_token, head), begin, s.sequence,
                                   s.head_dim);
      start_tile<width, tile_rows>(tiles.own(1), s.value(o.qkv, first_token, head), begin,
                                   s.sequence, s.head_dim);
    } else {
      start_tile<width, tile_rows>(tiles.own(0), s.query(o.qkv, first_token, head), begin,
                                   s.sequence, s.head_dim);
      start_tile<width, tile_rows>(tiles.own(1), s.output(o.gradient, first_token, head), begin,
                                   s.sequence, s.head_dim);
      load_statistics<tile_rows>(s, o, tiles, 0, head, begin);
    }
  }
};

// Which tiles of the other side a causal mask leaves: keys up to the own queries, queries from the
// own keys on.
template <bool own_keys, int width>
__device__ __forceinline__ Walk<own_keys, width> make_walk(const AttentionSizes& s,
                                                           const BackwardOperands& o) {
  constexpr int rows = walk_rows<width>;
  // The longest walks start first.
  const int tile = static_cast<int>(own_keys ? blockIdx.x : gridDim.x - 1 - blockIdx.x);
  const int begin = tile * tile_rows;
  const int all = (s.sequence + rows - 1) / rows;
  const int seen = (begin + tile_rows) / rows;
  return {s,
          o,
          static_cast<std::int64_t>(blockIdx.z) * s.sequence,
          begin,
          own_keys && s.causal ? begin / rows : 0,
          !own_keys && s.causal && seen < all ? seen : all};
}

template <bool own_keys, int width>
__global__ void __launch_bounds__(attention_threads)
    attention_backward_kernel(AttentionSizes s, BackwardOperands o) {
  const BackwardTiles<width> tiles{shared_memory<Bf16>()};
  const auto walk = make_walk<own_keys, width>(s, o);
  const int steps = walk.steps();
  walk.start_own(tiles);
  walk.start(tiles, 0);
  commit_copies();
  const int row = warp_id() * 16;
  float first_sum[1][width / 8][4] = {};                  // dQ or dK, before the scale
  float second_sum[1][own_keys ? width / 8 : 1][4] = {};  // dV
  for (int i = 0; i < steps; ++i) {
    wait_for_copies<0>();
    __syncthreads();  // step i is here, and step i - 1 is done with the buffers of i + 1
    if (i + 1 < steps) walk.start(tiles, i + 1);
    commit_copies();
    constexpr int n_tiles = walk_rows<width> / 8;
    float scores[1][n_tiles][4], dp[1][n_tiles][4];
    multiply_transposed<width>(tiles.own(0), row, tiles.other(0, i), scores);
    multiply_transposed<width>(tiles.own(1), row, tiles.other(1, i), dp);
    const int statistics = own_keys ? i : 0;
    differentiate<own_keys>(s, walk.begin, row, walk.step(i).first, tiles.log_sums(statistics),
                            tiles.deltas(statistics), scores, dp);
    if constexpr (own_keys) multiply_add<width>(scores, tiles.other(1, i), second_sum);
    multiply_add<width>(dp, tiles.other(0, i), first_sum);
  }
  wait_for_copies<0>();
  const int head = static_cast<int>(blockIdx.y);
  const float scaled[2] = {s.scale, s.scale};
  const float plain[2] = {1.0f, 1.0f};
  if constexpr (own_keys) {
    store_rows<width>(first_sum, scaled, s.key(o.qkv_gradient, walk.first_token, head),
                      walk.begin + row, s.sequence, s.head_dim);
    store_rows<width>(second_sum, plain, s.value(o.qkv_gradient, walk.first_token, head),
                      walk.begin + row, s.sequence, s.head_dim);
  } else {
    store_rows<width>(first_sum, scaled, s.query(o.qkv_gradient, walk.first_token, head),
                      walk.begin + row, s.sequence, s.head_dim);
  }
}

template <class T>
void compute_delta(const AttentionSizes& sizes, const void* output, const void* gradient,
                   float* delta, StreamHandle stream) {
  launch({.name = "attention_backward (delta)",
          .blocks = {stride_blocks(static_cast<std::int64_t>(sizes.tokens) * sizes.heads,
                                   delta_threads / warp_size)},
          .threads = delta_threads,
          .stream = stream},
         delta_kernel<T>, sizes, as<T>(output), as<T>(gradient), delta);
}

template <bool own_keys>
void start_backward(const AttentionSizes& sizes, const BackwardOperands& operands,
                    StreamHandle stream) {
  with_head_width(sizes.head_dim, [&](auto width) {
    constexpr int w = decltype(width)::value;
    launch({.name = own_keys ? "attention_backward (keys)" : "attention_backward (queries)",
            .blocks = {static_cast<unsigned>(divide_up(sizes.sequence, tile_rows)),
                       static_cast<unsigned>(own_keys ? sizes.kv_heads : sizes.heads),
                       static_cast<unsigned>(sizes.tokens / sizes.sequence)},
            .threads = attention_threads,
            .shared_bytes = BackwardTiles<w>::bytes,
            .stream = stream},
           attention_backward_kernel<own_keys, w>, sizes, operands);
  });
}

}  // namespace

std::int64_t attention_backward_workspace(const AttentionShape& shape) {
  return shape.heads.heads * shape.heads.tokens * static_cast<std::int64_t>(sizeof(float));
}

void attention_backward(const AttentionShape& shape, const AttentionBackward& operands,
                        Workspace workspace, StreamHandle stream) {
  const AttentionSizes sizes = attention_sizes("attention_backward", shape);
  require_workspace("attention_backward", workspace, attention_backward_workspace(shape));
  if (sizes.tokens == 0) return;
  auto* delta = static_cast<float*>(workspace.memory);
  const AttentionBackward& o = operands;
  if (shape.heads.dtype == sim::DType::fp32) {
    compute_delta<float>(sizes, o.output, o.gradient, delta, stream);
    attention_backward_fp32(
        sizes,
        {as<float>(o.qkv), o.log_sum_exp, delta, as<float>(o.gradient), as<float>(o.qkv_gradient)},
        stream);
    return;
  }
  if (shape.heads.dtype != sim::DType::bf16 ||
      !aligned({o.qkv, o.output, o.gradient, o.qkv_gradient}))
    refuse("attention_backward", "works on aligned bf16 and on fp32 only");
  compute_delta<Bf16>(sizes, o.output, o.gradient, delta, stream);
  const BackwardOperands arguments{as<Bf16>(o.qkv), o.log_sum_exp, delta, as<Bf16>(o.gradient),
                                   as<Bf16>(o.qkv_gradient)};
  start_backward<true>(sizes, arguments, stream);
  start_backward<false>(sizes, arguments, stream);
}

}  // namespace real::kernels
