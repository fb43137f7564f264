// Attention forward on tensor cores: FlashAttention-2 (Dao 2023), algorithm 1. A block owns 128
// queries, 32 of each warp, which share every fragment of keys and values that is loaded.
#include "real/cuda/kernels/attention_chunks.cuh"

namespace real::kernels {
namespace {

constexpr int m_tiles = 2;
constexpr int query_rows = 16 * m_tiles * attention_warps;

struct ForwardOperands {
  const Bf16* qkv;
  const Bf16* keys;  // may lie in qkv
  Bf16* output;
  float* log_sum_exp;
};

__device__ __forceinline__ float quad_maximum(float value) {
  value = fmaxf(value, __shfl_xor_sync(all_lanes, value, 1));
  return fmaxf(value, __shfl_xor_sync(all_lanes, value, 2));
}
__device__ __forceinline__ float quad_sum(float value) {
  value += __shfl_xor_sync(all_lanes, value, 1);
  return value + __shfl_xor_sync(all_lanes, value, 2);
}

// The running maximum (of the unscaled scores) and sum of exponentials of each row of a lane; the
// sum is of its own columns until the end.
struct RowState {
  float maximum[2 * m_tiles];
  float sum[2 * m_tiles];
};

// Scores become exponentials; what was summed before is brought to the new maximum. With `scale`
// times log2(e), exp(scale x) is a power of two.
template <int width, int n_tiles>
__device__ __forceinline__ void online_softmax(float scale, float (&scores)[m_tiles][n_tiles][4],
                                               RowState& state,
                                               float (&output)[m_tiles][width / 8][4]) {
#pragma unroll
  for (int r = 0; r < 2 * m_tiles; ++r) {
    const int m = r / 2, half = r % 2 * 2;
    float maximum = state.maximum[r];
#pragma unroll
    for (int n = 0; n < n_tiles; ++n)
      maximum = fmaxf(maximum, fmaxf(scores[m][n][half], scores[m][n][half + 1]));
    maximum = quad_maximum(maximum);
    // A row of which nothing was seen yet: -infinity minus itself is not a number.
    const float shift = maximum == -infinity ? 0.0f : maximum * scale;
    const float before = power_of_two(state.maximum[r] * scale - shift);
    float sum = state.sum[r] * before;
#pragma unroll
    for (int n = 0; n < n_tiles; ++n)
#pragma unroll
      for (int j = half; j < half + 2; ++j) {
        scores[m][n][j] = power_of_two(scores[m][n][j] * scale - shift);
        sum += scores[m][n][j];
      }
#pragma unroll
    for (int n = 0; n < width / 8; ++n) {
      output[m][n][half] *= before;
      output[m][n][half + 1] *= before;
    }
    state.maximum[r] = maximum;
    state.sum[r] = sum;
  }
}

// A query that sees no key gets zeros, and the lowest float.
template <int width>
__device__ __forceinline__ void finish(const AttentionSizes& s, const ForwardOperands& o,
                                       std::int64_t first_token, int tokens, int first_query,
                                       RowState& state,
                                       const float (&output)[m_tiles][width / 8][4]) {
  const int head = static_cast<int>(blockIdx.y);
  float factor[2 * m_tiles];
#pragma unroll
  for (int r = 0; r < 2 * m_tiles; ++r) {
    const float sum = quad_sum(state.sum[r]);
    const int query = first_query + r * 8 + lane_id() / 4;
    factor[r] = sum == 0.0f ? 0.0f : 1.0f / sum;
    if (lane_id() % 4 == 0 && query < tokens && o.log_sum_exp != nullptr)
      o.log_sum_exp[static_cast<std::int64_t>(head) * s.tokens + first_token + query] =
          sum == 0.0f ? lowest_float : state.maximum[r] * s.scale + logf(sum);
  }
  store_rows<width>(output, factor, s.output(o.output, first_token, head), first_query, tokens,
                    s.head_dim);
}

template <int width>
struct ForwardTiles {
  static constexpr int bytes = (query_rows + 4 * walk_rows<width>)*width * 2;
  Bf16* memory;
  __device__ Tile<width> query() const { return {memory}; }
  __device__ Tile<width> key(int i) const {
    return {memory + (query_rows + (i & 1) * walk_rows<width>)*width};
  }
  __device__ Tile<width> value(int i) const {
    return {memory + (query_rows + (2 + (i & 1)) * walk_rows<width>)*width};
  }
};

template <int width, class Chunks>
__global__ void __launch_bounds__(attention_threads)
    attention_kernel(AttentionSizes s, Chunks c, ForwardOperands o) {
  constexpr int key_rows = walk_rows<width>;
  const ForwardTiles<width> tiles{shared_memory<Bf16>()};
  // The last queries see the most keys: they start first.
  const OwnTile own = own_tile(s, c, static_cast<int>(gridDim.x - 1 - blockIdx.x), query_rows);
  const int head = static_cast<int>(blockIdx.y);
  const int tokens = c.tokens(s);
  const std::int64_t first_token = c.query_token(s, own.chunk);
  const TileRange<Chunks> met = tiles_met<false>(s, c, own, query_rows, key_rows);
  const auto start_keys = [&](int i) {
    const TileAt at = met.at(i, key_rows, tokens);
    start_tile<width, key_rows>(tiles.key(i),
                                s.key(o.keys, c.keys(s), c.key_token(s, at.chunk), s.kv_head(head)),
                                at.first, tokens, s.head_dim);
  };
  const auto start_values = [&](int i) {
    const TileAt at = met.at(i, key_rows, tokens);
    start_tile<width, key_rows>(
        tiles.value(i), s.value(o.keys, c.keys(s), c.key_token(s, at.chunk), s.kv_head(head)),
        at.first, tokens, s.head_dim);
  };
  const int begin = met.from, steps = met.to;
  start_tile<width, query_rows>(tiles.query(), s.query(o.qkv, first_token, head), own.begin, tokens,
                                s.head_dim);
  if (begin < steps) start_keys(begin);
  commit_copies();
  if (begin < steps) start_values(begin);
  commit_copies();
  const int row = warp_id() * 16 * m_tiles;
  float output[m_tiles][width / 8][4] = {};
  RowState state;
#pragma unroll
  for (int r = 0; r < 2 * m_tiles; ++r) {
    state.maximum[r] = -infinity;
    state.sum[r] = 0;
  }
  for (int i = begin; i < steps; ++i) {
    float scores[m_tiles][key_rows / 8][4];
    const TileAt at = met.at(i, key_rows, tokens);
    const int next = at.first + key_rows;
    wait_for_copies<1>();  // keys i; all that is older
    __syncthreads();
    if (i + 1 < steps) start_keys(i + 1);
    commit_copies();
    multiply_transposed<width>(tiles.query(), row, tiles.key(i), scores);
    if (next > tokens || (at.own && next > own.begin + row + 1) ||
        c.is_before(own.begin + row + 16 * m_tiles - 1, at.first))
      mask_scores<false>(c, tokens, at.own, own.begin + row, at.first, scores);
    online_softmax<width>(s.scale * log2_e, scores, state, output);
    wait_for_copies<1>();  // values i
    __syncthreads();
    if (i + 1 < steps) start_values(i + 1);
    commit_copies();
    multiply_add<width>(scores, tiles.value(i), output);
  }
  wait_for_copies<0>();
  finish<width>(s, o, first_token, tokens, own.begin + row, state, output);
}

template <class Chunks>
void start_forward(const AttentionSizes& sizes, const Chunks& chunks,
                   const ForwardOperands& operands, StreamHandle stream) {
  with_head_width(sizes.head_dim, [&](auto width) {
    constexpr int w = decltype(width)::value;
    launch({.name = "attention_forward",
            .blocks = {own_tiles(chunks.query_chunks(), chunks.tokens(sizes), query_rows),
                       static_cast<unsigned>(sizes.heads),
                       static_cast<unsigned>(sizes.tokens / sizes.sequence)},
            .threads = attention_threads,
            .shared_bytes = ForwardTiles<w>::bytes,
            .stream = stream},
           attention_kernel<w, Chunks>, sizes, chunks, operands);
  });
}

template <class Chunks>
void forward(const char* name, const AttentionShape& shape, const Chunks& chunks, const void* qkv,
             const void* keys, void* output, float* log_sum_exp, StreamHandle stream) {
  const PlainSizes sizes = attention_sizes(name, shape);
  if (sizes.tokens == 0) return;
  if (!takes_tensor_cores(shape))
    return with_type(name, shape.heads.dtype, [&](auto type) {
      using T = typename decltype(type)::type;
      const PlainForward<T> operands{as<T>(qkv), as<T>(keys), as<T>(output), log_sum_exp};
      plain_attention(sizes, chunks, shape.rules, operands, stream);
    });
  if (!aligned({qkv, keys, output})) refuse(name, "works on aligned bf16 only");
  start_forward(of_tensor_cores(sizes), chunks,
                {as<Bf16>(qkv), as<Bf16>(keys), as<Bf16>(output), log_sum_exp}, stream);
}

}  // namespace

bool takes_tensor_cores(const AttentionShape& shape) {
  const HeadsShape& h = shape.heads;
  return h.dtype == sim::DType::bf16 && h.head_dim <= 128 && h.values() == h.head_dim &&
         !shape.rules.exist();
}

PlainSizes attention_sizes(const char* name, const AttentionShape& shape) {
  const HeadsShape& h = shape.heads;
  for (const std::int64_t size : {h.head_dim, h.values()})
    if (size % 16 != 0 || size < 16 || size > 256)
      refuse(name,
             "a head of " + std::to_string(size) + " elements is no multiple of 16 up to 256");
  if (h.kv_heads <= 0 || h.heads % h.kv_heads != 0)
    refuse(name, std::to_string(h.heads) + " heads do not share " + std::to_string(h.kv_heads) +
                     " key/value heads");
  if (h.sequence <= 0 || h.tokens % h.sequence != 0 || h.tokens / h.sequence > 65535)
    refuse(name,
           std::to_string(h.tokens) + " tokens in sequences of " + std::to_string(h.sequence));
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(h.head_dim)));
  // Within one sequence, and one row, places are 32-bit numbers in the kernels.
  if (h.tokens >= INT32_MAX || h.row() >= INT32_MAX || h.heads > 65535)
    refuse(name, std::to_string(h.tokens) + " tokens, " + std::to_string(h.heads) + " heads");
  return {static_cast<int>(h.tokens),
          static_cast<int>(h.sequence),
          static_cast<int>(h.heads),
          static_cast<int>(h.kv_heads),
          static_cast<int>(h.head_dim),
          static_cast<int>(h.values()),
          scale,
          shape.causal};
}

void attention_forward(const AttentionShape& shape, const void* qkv, void* output,
                       float* log_sum_exp, StreamHandle stream) {
  with_chunks("attention_forward", shape, [&](const auto& chunks) {
    forward("attention_forward", shape, chunks, qkv, qkv, output, log_sum_exp, stream);
  });
}

Slices slices_of(const char* name, const SliceShape& shape, bool from_slices, bool to_slices) {
  const ContextShare& share = shape.heads.context;
  if (share.ranks < 2 || shape.heads.sequence % 2 != 0)
    refuse(name, "sequences are cut into two chunks of each rank");
  if (shape.count != 1 && (shape.count != share.ranks || shape.first != 0))
    refuse(name, "works on the slice of one rank, or of all");
  const auto kv_heads = static_cast<int>(shape.heads.kv_heads);
  if (shape.rules.tokens.ids != nullptr) refuse(name, "knows no padding");
  if (shape.heads.values() != shape.heads.head_dim)
    refuse(name, "takes values of the size of queries");
  const KeyRows in_qkv{static_cast<int>(shape.heads.row()), static_cast<int>(shape.heads.heads)};
  const KeyRows in_slice{2 * kv_heads * static_cast<int>(shape.heads.head_dim), 0};
  return {static_cast<int>(shape.heads.sequence / 2),
          static_cast<int>(share.ranks),
          static_cast<int>(share.rank),
          static_cast<int>(shape.first),
          shape.count > 1,
          from_slices ? in_slice : in_qkv,
          to_slices ? in_slice : in_qkv};
}

void attend(const SliceShape& shape, const void* qkv, const void* keys, void* output,
            float* log_sum_exp, StreamHandle stream) {
  const Slices slices = slices_of("attend", shape, keys != nullptr, false);
  forward("attend", whole_of(shape), slices, qkv, keys != nullptr ? keys : qkv, output, log_sum_exp,
          stream);
}

}  // namespace real::kernels
