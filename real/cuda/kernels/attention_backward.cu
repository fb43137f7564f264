// Attention backward: FlashAttention-2 (Dao 2023), algorithm 2, as two kernels of one form, so that
// every gradient has one writer and needs no atomics: the price is two of seven products twice.
//
//   P = exp(scale Q K^T - log-sum-exp), dP = dO V^T, delta = rowsum(dO O), dS = P (dP - delta)
//   queries: dQ = scale dS K         over tiles of keys
//   keys:    dV = P^T dO, dK = scale dS^T Q  over tiles of queries, of all heads that share them
//
// A block works on transposed products where it owns keys: in both cases P and dS lie in registers
// as operand A of what is summed.
#include <algorithm>
#include <bit>

#include "real/cuda/kernels/attention_chunks.cuh"

namespace real::kernels {
namespace {

constexpr unsigned delta_threads = 256;

struct BackwardOperands {
  const Bf16* qkv;
  const Bf16* keys;  // may lie in qkv, and their gradients in qkv_gradient
  const float* log_sum_exp;
  const float* delta;
  const Bf16* gradient;
  Bf16* qkv_gradient;
  Bf16* keys_gradient;
};

// delta[head, token]: as many lanes as a row of a head has vectors, up to a power of two that a
// warp has, and a power of two of rows in a warp.
template <class T>
__global__ void delta_kernel(PlainSizes s, int lanes, const T* output, const T* gradient,
                             float* delta) {
  constexpr int count = 16 / sizeof(T);
  const std::int64_t items = static_cast<std::int64_t>(s.tokens) * s.heads;
  const int column = static_cast<int>(threadIdx.x) % lanes * count;
  const std::int64_t step = global_threads() / lanes;
  // All lanes of a warp go as many rounds: they meet in the sums.
  for (std::int64_t first = global_thread() / warp_size * (warp_size / lanes); first < items;
       first += step) {
    const std::int64_t item = first + lane_id() / lanes;
    float sum = 0;
    for (int at = column; item < items && at < s.value_dim; at += lanes * count) {
      float x[count], y[count];
      load(output + item * s.value_dim + at, x);
      load(gradient + item * s.value_dim + at, y);
#pragma unroll
      for (int j = 0; j < count; ++j)
        sum += x[j] * y[j];
    }
    for (int mask = lanes / 2; mask > 0; mask /= 2)
      sum += __shfl_xor_sync(all_lanes, sum, mask);
    if (item < items && column == 0) delta[item % s.heads * s.tokens + item / s.heads] = sum;
  }
}

// How the work is cut. A warp owns 16 m_tiles rows, which share every fragment of the other side
// that is loaded: with one tile, shared memory bounds the kernel. `walk`: rows of the other side at
// a time. Sums and scores fill the registers, so wide heads have less of both.
template <bool own_keys, int width, class Chunks>
struct Cut {
  static constexpr int m_tiles = own_keys && width > 64 ? 1 : 2;
  static constexpr int own = 16 * m_tiles * attention_warps;
  static constexpr int walk = width > 32 ? 32 : 64;
  static constexpr int of_queries = Chunks::has_window ? 1 : Chunks::is_one ? 2 : 4;
  static constexpr int wide_at_once = own_keys ? 2 : of_queries;
  // Its registers are full: four steps at once would spill.
  static constexpr bool is_full = own_keys && !Chunks::is_one && width == 64;
  static constexpr int at_once = width > 96 ? wide_at_once : is_full ? 2 : width / 16;
};

// Shared memory: the own tiles (queries and their gradients, or keys and values), two of each of
// the other side, and log-sum-exp and delta of the queries: of the own rows, or two tiles of them.
template <bool own_keys, int width, class Chunks>
struct BackwardTiles {
  using C = Cut<own_keys, width, Chunks>;
  static constexpr int own_elements = C::own * width;
  static constexpr int other_elements = C::walk * width;
  static constexpr int queries = own_keys ? C::walk : C::own;  // whose statistics lie together
  static constexpr int bytes =
      (2 * own_elements + 4 * other_elements) * 2 + (own_keys ? 4 : 2) * queries * 4;
  Bf16* memory;
  __device__ Tile<width> own(int which) const { return {memory + which * own_elements}; }
  __device__ Tile<width> other(int which, int i) const {
    return {memory + 2 * own_elements + (2 * which + (i & 1)) * other_elements};
  }
  // Log-sum-exp of the queries of step i, then their deltas.
  __device__ float* statistics(int i) const {
    return reinterpret_cast<float*>(memory + 2 * own_elements + 4 * other_elements) +
           (own_keys ? (i & 1) * 2 * queries : 0);
  }
};

// Starts copying log-sum-exp and delta of `queries` queries; zeros beyond the `limit` queries of a
// chunk, where the rows of queries and their gradients are zeros as well: they add nothing.
template <int queries>
__device__ __forceinline__ void start_statistics(const AttentionSizes& s, const BackwardOperands& o,
                                                 float* to, int head, std::int64_t first_token,
                                                 int first_query, int limit) {
  const std::int64_t first = static_cast<std::int64_t>(head) * s.tokens + first_token + first_query;
#pragma unroll
  for (int begin = 0; begin < 2 * queries; begin += attention_threads) {
    const int item = begin + static_cast<int>(threadIdx.x);
    if (item >= 2 * queries) return;
    const int query = item % queries;
    const bool valid = first_query + query < limit;
    const float* from = item < queries ? o.log_sum_exp : o.delta;
    start_copy_4(to + item, valid ? from + first + query : from, valid);
  }
}

// scores become P, dp becomes dS. Rows are queries, or keys; `statistics` are of the queries: of
// the warp's rows (from `row` on of `queries`), or of the columns.
template <bool own_keys, int queries, int m_tiles, int n_tiles>
__device__ __forceinline__ void differentiate(float scale, const float* statistics, int row,
                                              float (&scores)[m_tiles][n_tiles][4],
                                              float (&dp)[m_tiles][n_tiles][4]) {
  const auto one = [&](float log_sum, float delta, float& score, float& gradient) {
    score = power_of_two(score * (scale * log2_e) - log_sum * log2_e);
    gradient = score * (gradient - delta);
  };
  if constexpr (own_keys) {
#pragma unroll
    for (int n = 0; n < n_tiles; ++n) {
      const int column = n * 8 + lane_id() % 4 * 2;
      const float2 log_sum = *reinterpret_cast<const float2*>(statistics + column);
      const float2 delta = *reinterpret_cast<const float2*>(statistics + queries + column);
#pragma unroll
      for (int m = 0; m < m_tiles; ++m)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          one(j % 2 == 0 ? log_sum.x : log_sum.y, j % 2 == 0 ? delta.x : delta.y, scores[m][n][j],
              dp[m][n][j]);
    }
  } else {
#pragma unroll
    for (int m = 0; m < m_tiles; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float* own = statistics + row + 16 * m + 8 * half + lane_id() / 4;
        const float log_sum = own[0], delta = own[queries];
#pragma unroll
        for (int n = 0; n < n_tiles; ++n)
#pragma unroll
          for (int j = 2 * half; j < 2 * half + 2; ++j)
            one(log_sum, delta, scores[m][n][j], dp[m][n][j]);
      }
  }
}

// The walk over the other side: keys and values, or queries and gradients of each of the heads that
// share the own keys.
template <bool own_keys, int width, class Chunks>
struct Walk {
  using C = Cut<own_keys, width, Chunks>;
  using Tiles = BackwardTiles<own_keys, width, Chunks>;
  struct Step : TileAt {
    int head;
  };
  AttentionSizes s;
  Chunks c;
  BackwardOperands o;
  OwnTile own;
  TileRange<Chunks> met;
  __device__ int heads() const { return own_keys ? s.heads / s.kv_heads : 1; }
  __device__ int steps() const { return heads() * (met.to - met.from); }
  __device__ Step step(int i) const {
    const int count = met.to - met.from;
    const int head = static_cast<int>(blockIdx.y) * heads() + i / count;
    return {met.at(met.from + i % count, C::walk, c.tokens(s)), head};
  }
  // Whether any, and whether all, of the scores of a warp's rows count in a step.
  __device__ bool sees(int row, const TileAt& at) const {
    if (own.begin + row >= c.tokens(s)) return false;
    if (!at.own) return true;
    if constexpr (Chunks::has_window) {
      const int begin = own.begin + row, end = begin + 16 * C::m_tiles;
      if (own_keys ? c.is_before(at.first, end - 1) : c.is_before(begin, at.first + C::walk - 1))
        return false;
    }
    return own_keys ? at.first + C::walk > own.begin + row
                    : at.first < own.begin + row + 16 * C::m_tiles;
  }
  __device__ bool sees_all(int row, const TileAt& at) const {
    if (!own_keys && at.first + C::walk > c.tokens(s)) return false;
    if (!at.own) return true;
    if constexpr (Chunks::has_window) {
      const int begin = own.begin + row, end = begin + 16 * C::m_tiles;
      if (own_keys ? c.is_before(at.first + C::walk - 1, begin) : c.is_before(end - 1, at.first))
        return false;
    }
    return own_keys ? at.first >= own.begin + row + 16 * C::m_tiles - 1
                    : at.first + C::walk <= own.begin + row + 1;
  }
  __device__ void start(const Tiles& tiles, int i) const {
    const Step at = step(i);
    if constexpr (own_keys) {
      start_queries<C::walk>({tiles.other(0, i), tiles.other(1, i), tiles.statistics(i)}, at.head,
                             at.chunk, at.first);
    } else {
      start_keys<C::walk>(tiles.other(0, i), tiles.other(1, i), s.kv_head(at.head), at.chunk,
                          at.first);
    }
  }
  __device__ void start_own(const Tiles& tiles) const {
    const int head = static_cast<int>(blockIdx.y);
    if constexpr (own_keys) {
      start_keys<C::own>(tiles.own(0), tiles.own(1), head, own.chunk, own.begin);
    } else {
      start_queries<C::own>({tiles.own(0), tiles.own(1), tiles.statistics(0)}, head, own.chunk,
                            own.begin);
    }
  }

 private:
  struct QueryTiles {
    Tile<width> query, gradient;
    float* statistics;
  };
  template <int rows>
  __device__ void start_queries(const QueryTiles& to, int head, int chunk, int first) const {
    const std::int64_t token = c.query_token(s, chunk);
    const int tokens = c.tokens(s);
    start_tile<width, rows>(to.query, s.query(o.qkv, token, head), first, tokens, s.head_dim);
    start_tile<width, rows>(to.gradient, s.output(o.gradient, token, head), first, tokens,
                            s.head_dim);
    start_statistics<rows>(s, o, to.statistics, head, token, first, tokens);
  }
  template <int rows>
  __device__ void start_keys(const Tile<width>& key, const Tile<width>& value, int kv, int chunk,
                             int first) const {
    const std::int64_t token = c.key_token(s, chunk);
    const int tokens = c.tokens(s);
    start_tile<width, rows>(key, s.key(o.keys, c.keys(s), token, kv), first, tokens, s.head_dim);
    start_tile<width, rows>(value, s.value(o.keys, c.keys(s), token, kv), first, tokens,
                            s.head_dim);
  }
};

template <bool own_keys, int width, class Chunks>
__device__ __forceinline__ Walk<own_keys, width, Chunks> make_walk(const AttentionSizes& s,
                                                                   const Chunks& c,
                                                                   const BackwardOperands& o) {
  using C = Cut<own_keys, width, Chunks>;
  const OwnTile own =
      own_tile(s, c, static_cast<int>(own_keys ? blockIdx.x : gridDim.x - 1 - blockIdx.x), C::own);
  return {s, c, o, own, tiles_met<own_keys>(s, c, own, C::own, C::walk)};
}

template <int m_tiles>
struct Factors {
  float of[2 * m_tiles];
};
template <int m_tiles>
__device__ __forceinline__ Factors<m_tiles> all_rows(float factor) {
  Factors<m_tiles> factors;
#pragma unroll
  for (float& f : factors.of)
    f = factor;
  return factors;
}

template <bool own_keys, int width, class Chunks>
__global__ void __launch_bounds__(attention_threads)
    attention_backward_kernel(AttentionSizes s, Chunks c, BackwardOperands o) {
  using C = Cut<own_keys, width, Chunks>;
  using Tiles = BackwardTiles<own_keys, width, Chunks>;
  const Tiles tiles{shared_memory<Bf16>()};
  const auto walk = make_walk<own_keys, width>(s, c, o);
  const int steps = walk.steps();
  walk.start_own(tiles);
  if (steps > 0) walk.start(tiles, 0);
  commit_copies();
  const int row = warp_id() * 16 * C::m_tiles;
  float first_sum[C::m_tiles][width / 8][4] = {};                  // dQ or dK, before the scale
  float second_sum[C::m_tiles][own_keys ? width / 8 : 1][4] = {};  // dV
  for (int i = 0; i < steps; ++i) {
    wait_for_copies<0>();
    __syncthreads();  // step i is here, and step i - 1 is done with the buffers of i + 1
    if (i + 1 < steps) walk.start(tiles, i + 1);
    commit_copies();
    const TileAt at = walk.step(i);
    if (!walk.sees(row, at)) continue;
    float scores[C::m_tiles][C::walk / 8][4], dp[C::m_tiles][C::walk / 8][4];
    multiply_transposed<width, C::at_once>(tiles.own(0), row, tiles.other(0, i), scores);
    multiply_transposed<width, C::at_once>(tiles.own(1), row, tiles.other(1, i), dp);
    if (!walk.sees_all(row, at))
      mask_scores<own_keys>(c, c.tokens(s), at.own, walk.own.begin + row, at.first, scores);
    differentiate<own_keys, Tiles::queries>(s.scale, tiles.statistics(i), row, scores, dp);
    if constexpr (own_keys) multiply_add<width>(scores, tiles.other(1, i), second_sum);
    multiply_add<width>(dp, tiles.other(0, i), first_sum);
  }
  wait_for_copies<0>();
  const int head = static_cast<int>(blockIdx.y);
  const int begin = walk.own.begin + row, tokens = c.tokens(s);
  const auto scaled = all_rows<C::m_tiles>(s.scale);
  if constexpr (own_keys) {
    const std::int64_t token = c.key_token(s, walk.own.chunk);
    store_rows<width>(first_sum, scaled.of, s.key(o.keys_gradient, c.gradients(s), token, head),
                      begin, tokens, s.head_dim);
    store_rows<width>(second_sum, all_rows<C::m_tiles>(1.0f).of,
                      s.value(o.keys_gradient, c.gradients(s), token, head), begin, tokens,
                      s.head_dim);
  } else {
    const std::int64_t token = c.query_token(s, walk.own.chunk);
    store_rows<width>(first_sum, scaled.of, s.query(o.qkv_gradient, token, head), begin, tokens,
                      s.head_dim);
  }
}

template <class T>
void compute_delta(const PlainSizes& sizes, const void* output, const void* gradient, float* delta,
                   StreamHandle stream) {
  const auto vectors = static_cast<unsigned>(sizes.value_dim) * sizeof(T) / 16;
  const int lanes = std::min(static_cast<int>(std::bit_ceil(vectors)), warp_size);
  const std::int64_t items = static_cast<std::int64_t>(sizes.tokens) * sizes.heads;
  launch({.name = "attention_backward (delta)",
          .blocks = {stride_blocks(items, delta_threads / lanes)},
          .threads = delta_threads,
          .stream = stream},
         delta_kernel<T>, sizes, lanes, as<T>(output), as<T>(gradient), delta);
}

template <bool own_keys, class Chunks>
void start_backward(const AttentionSizes& sizes, const Chunks& chunks,
                    const BackwardOperands& operands, StreamHandle stream) {
  with_head_width(sizes.head_dim, [&](auto width) {
    constexpr int w = decltype(width)::value;
    launch({.name = own_keys ? "attention_backward (keys)" : "attention_backward (queries)",
            .blocks = {own_tiles(own_keys ? chunks.key_chunks() : chunks.query_chunks(),
                                 chunks.tokens(sizes), Cut<own_keys, w, Chunks>::own),
                       static_cast<unsigned>(own_keys ? sizes.kv_heads : sizes.heads),
                       static_cast<unsigned>(sizes.tokens / sizes.sequence)},
            .threads = attention_threads,
            .shared_bytes = BackwardTiles<own_keys, w, Chunks>::bytes,
            .stream = stream},
           attention_backward_kernel<own_keys, w, Chunks>, sizes, chunks, operands);
  });
}

// keys: in slices, or qkv; keys_gradient the same.
template <class Chunks>
void backward(const char* name, const AttentionShape& shape, const Chunks& chunks,
              const SliceBackward& operands, Workspace workspace, StreamHandle stream) {
  const PlainSizes sizes = attention_sizes(name, shape);
  require_workspace(name, workspace, attention_backward_workspace(shape));
  if (sizes.tokens == 0) return;
  auto* delta = static_cast<float*>(workspace.memory);
  const AttentionBackward& o = operands.attention;
  const void* keys = operands.keys;
  void* keys_gradient = operands.keys_gradient;
  const bool plain = !takes_tensor_cores(shape);
  with_type(name, shape.heads.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    compute_delta<T>(sizes, o.output, o.gradient, delta, stream);
    const PlainBackward<T> all{as<T>(o.qkv),      as<T>(keys),           o.log_sum_exp,       delta,
                               as<T>(o.gradient), as<T>(o.qkv_gradient), as<T>(keys_gradient)};
    if (plain) plain_attention_backward(sizes, chunks, shape.rules, all, stream);
  });
  if (plain) return;
  if (!aligned({o.qkv, keys, o.output, o.gradient, o.qkv_gradient, keys_gradient}))
    refuse(name, "works on aligned bf16 only");
  const BackwardOperands arguments{
      as<Bf16>(o.qkv),      as<Bf16>(keys),           o.log_sum_exp,          delta,
      as<Bf16>(o.gradient), as<Bf16>(o.qkv_gradient), as<Bf16>(keys_gradient)};
  start_backward<true>(of_tensor_cores(sizes), chunks, arguments, stream);
  start_backward<false>(of_tensor_cores(sizes), chunks, arguments, stream);
}

}  // namespace

std::int64_t attention_backward_workspace(const AttentionShape& shape) {
  return shape.heads.heads * shape.heads.tokens * static_cast<std::int64_t>(sizeof(float));
}

void attention_backward(const AttentionShape& shape, const AttentionBackward& operands,
                        Workspace workspace, StreamHandle stream) {
  with_chunks("attention_backward", shape, [&](const auto& chunks) {
    backward("attention_backward", shape, chunks, {operands, operands.qkv, operands.qkv_gradient},
             workspace, stream);
  });
}

void attend_backward(const SliceShape& shape, const SliceBackward& operands, Workspace workspace,
                     StreamHandle stream) {
  const bool apart = operands.keys_gradient != nullptr;
  const Slices slices = slices_of("attend_backward", shape, operands.keys != nullptr, apart);
  if (!apart && shape.count > 1)
    refuse("attend_backward", "gradients of several slices have no place in those of [q|k|v]");
  SliceBackward own = operands;
  if (own.keys == nullptr) own.keys = own.attention.qkv;
  if (apart)
    zero(own.attention.qkv_gradient,
         shape.heads.tokens * shape.heads.row() * sim::bytes_of(shape.heads.dtype), stream);
  else
    own.keys_gradient = own.attention.qkv_gradient;
  backward("attend_backward", whole_of(shape), slices, own, workspace, stream);
}

}  // namespace real::kernels
