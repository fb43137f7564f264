// Attention without tensor cores: in fp32, for runs whose numbers must agree with the host's, and
// in bf16 where the kernels of the tensor cores do not take it (attention.cu). The same algorithms;
// a warp owns one row, and a lane one row of the other side's tile while products are made, or
// every 32nd element of the row while they are summed.
#include "real/cuda/kernels/attention_chunks.cuh"
#include "real/engine/kernels/dropout.hpp"

namespace real::kernels {
namespace {

constexpr int warps = 8;

// Shared memory: two tiles of the other side, 32 rows padded by one element against bank conflicts,
// and the warp's own two rows. The first of each is as wide as a query, the second as a value.
struct Shared {
  int widths[2];
  float* memory;
  __device__ Shared(const PlainSizes& s, float* start)
      : widths{s.head_dim, s.value_dim}, memory{start} {}
  __device__ float* row(int which, int r) const {
    const int before = which == 0 ? 0 : warp_size * (widths[0] + 1);
    return memory + before + r * (widths[which] + 1);
  }
  __device__ float* own(int which) const {
    const int tiles = warp_size * (widths[0] + widths[1] + 2);
    return memory + tiles + warp_id() * (widths[0] + widths[1]) + (which == 0 ? 0 : widths[0]);
  }
};
std::size_t shared_bytes(const PlainSizes& s) {
  return static_cast<std::size_t>(warp_size * (s.head_dim + s.value_dim + 2) +
                                  warps * (s.head_dim + s.value_dim)) *
         sizeof(float);
}

template <class T>
__device__ __forceinline__ void load_tile(const Shared& shared, int which,
                                          const HeadView<const T>& from, int first, int limit) {
  const int width = shared.widths[which];
  for (int i = static_cast<int>(threadIdx.x); i < warp_size * width; i += warps * warp_size) {
    const int row = i / width, element = i % width;
    const std::int64_t at = static_cast<std::int64_t>(first + row) * from.stride + element;
    shared.row(which, row)[element] = first + row < limit ? to_float(from.rows[at]) : 0.0f;
  }
}
template <class T>
__device__ __forceinline__ void load_own(const Shared& shared, int which,
                                         const HeadView<const T>& from, int row, int limit) {
  const std::int64_t at = static_cast<std::int64_t>(row) * from.stride;
  for (int i = lane_id(); i < shared.widths[which]; i += warp_size)
    shared.own(which)[i] = row < limit ? to_float(from.rows[at + i]) : 0.0f;
}
// Own row times the lane's row of the tile.
__device__ __forceinline__ float product(const Shared& shared, int which) {
  const float* own = shared.own(which);
  const float* other = shared.row(which, lane_id());
  float sum = 0;
  for (int i = 0; i < shared.widths[which]; ++i)
    sum += own[i] * other[i];
  return sum;
}
// sum += the lanes' weights times the rows of the tile. `held`: elements of a row in a lane.
template <int held>
__device__ __forceinline__ void add_rows(const Shared& shared, int which, float weight,
                                         float (&sum)[held]) {
  for (int row = 0; row < warp_size; ++row) {
    const float w = __shfl_sync(all_lanes, weight, row);
#pragma unroll
    for (int i = 0; i < held; ++i) {
      const int element = lane_id() + i * warp_size;
      if (element < shared.widths[which]) sum[i] += w * shared.row(which, row)[element];
    }
  }
}
template <int held, class T>
__device__ __forceinline__ void store_own(float factor, const float (&sum)[held], int width,
                                          const HeadView<T>& to, int row, int limit) {
  if (row >= limit) return;
#pragma unroll
  for (int i = 0; i < held; ++i) {
    const int element = lane_id() + i * warp_size;
    if (element < width)
      to.rows[static_cast<std::int64_t>(row) * to.stride + element] =
          from_float<T>(sum[i] * factor);
  }
}

// Where keys and values lie, and their gradients. Slices have values of the size of queries.
template <class Chunks>
__device__ __forceinline__ KeyRows keys_in(const PlainSizes& s, const Chunks& c) {
  if constexpr (Chunks::is_one) return s.in_qkv();
  return c.keys(of_tensor_cores(s));
}
template <class Chunks>
__device__ __forceinline__ KeyRows gradients_in(const PlainSizes& s, const Chunks& c) {
  if constexpr (Chunks::is_one) return s.in_qkv();
  return c.gradients(of_tensor_cores(s));
}

struct Later {
  __device__ int operator()(int a, int b) const { return a > b ? a : b; }
};

// Seen is what the rules say of the block's sequence. All lanes of a warp make it together.
class Seen {
 public:
  template <class Chunks>
  __device__ Seen(const AttentionSizes& t, const Chunks& c, const ScoreRules& rules)
      : drops_{rules.dropout.probability > 0},
        mask_{rules.dropout},
        sequence_{c.sequence(t)},
        first_{((rules.first_sequence + blockIdx.z) * rules.all_heads + rules.first_head) *
               sequence_},
        keys_{c.tokens(t)} {
    if (rules.tokens.ids == nullptr) return;
    int end = 1;
    for (int i = lane_id(); i < t.sequence; i += warp_size)
      if (rules.tokens[blockIdx.z * std::int64_t{t.sequence} + i] != rules.padding) end = i + 1;
    keys_ = combine_warp(end, Later{});
  }
  // Keys of a chunk before the padding.
  __device__ int keys() const { return keys_; }
  // Factor of a probability: 0 or 1 / (1 - p). Query and key by their places in the sequence.
  __device__ float factor(int head, int query, int key) {
    if (!drops_) return 1.0f;
    const std::int64_t row = first_ + static_cast<std::int64_t>(head) * sequence_ + query;
    return mask_.factor(static_cast<std::uint64_t>(row * sequence_ + key));
  }

 private:
  bool drops_;
  DropoutMask mask_;
  int sequence_;
  std::int64_t first_;  // row of probabilities in the global batch
  int keys_;
};

// A query that sees no key gets zeros, and the lowest float.
template <int held, class T, class Chunks>
__global__ void plain_attention_kernel(PlainSizes s, Chunks c, ScoreRules rules,
                                       PlainForward<T> o) {
  const AttentionSizes t = of_tensor_cores(s);
  const Shared shared{s, shared_memory<float>()};
  Seen seen{t, c, rules};
  const OwnTile own = own_tile(t, c, static_cast<int>(blockIdx.x), warps);
  const int tokens = c.tokens(t);
  const int query = own.begin + warp_id();
  const int head = static_cast<int>(blockIdx.y);
  const std::int64_t first_token = c.query_token(t, own.chunk);
  const TileRange<Chunks> met = tiles_met<false>(t, c, own, warps, warp_size);
  const int query_place = c.query_place(own.chunk) * tokens + query;
  load_own(shared, 0, s.query(o.qkv, first_token, head), query, tokens);
  float maximum = -infinity, sum = 0;
  float out[held] = {};
  for (int tile = met.from; tile < met.to; ++tile) {
    const TileAt at = met.at(tile, warp_size, tokens);
    const std::int64_t from = c.key_token(t, at.chunk);
    const KeyRows in = keys_in(s, c);
    __syncthreads();
    load_tile(shared, 0, s.key(o.keys, in, from, s.kv_head(head)), at.first, tokens);
    load_tile(shared, 1, s.value(o.keys, in, from, s.kv_head(head)), at.first, tokens);
    __syncthreads();
    const int key = at.first + lane_id();
    const bool masked = key >= seen.keys() || (at.own && key > query) || c.is_before(query, key);
    const float score = masked ? -infinity : product(shared, 0) * s.scale;
    const float before = maximum;
    maximum = combine_warp(fmaxf(before, score), Maximum{});
    const float shift = maximum == -infinity ? 0.0f : maximum;
    const float correction = expf(before - shift);
    const float p = expf(score - shift);
    sum = sum * correction + combine_warp(p, Sum{});
#pragma unroll
    for (int i = 0; i < held; ++i)
      out[i] *= correction;
    const int key_place = c.key_place(at.chunk) * tokens + key;
    add_rows(shared, 1, masked ? 0.0f : p * seen.factor(head, query_place, key_place), out);
  }
  store_own(sum == 0.0f ? 0.0f : 1.0f / sum, out, s.value_dim,
            s.output(o.output, first_token, head), query, tokens);
  if (lane_id() == 0 && query < tokens && o.log_sum_exp != nullptr)
    o.log_sum_exp[static_cast<std::int64_t>(head) * s.tokens + first_token + query] =
        sum == 0.0f ? lowest_float : maximum + logf(sum);
}

// Rows are keys (own: key, value; other side: query, gradient) or queries (own: query, gradient;
// other side: key, value). With dropout, M the factors: dV = (M P)^T dO, dS = P (M dP - delta).
template <bool own_keys, int held, class T, class Chunks>
__global__ void plain_attention_backward_kernel(PlainSizes s, Chunks c, ScoreRules rules,
                                                PlainBackward<T> o) {
  const AttentionSizes t = of_tensor_cores(s);
  const Shared shared{s, shared_memory<float>()};
  Seen seen{t, c, rules};
  const OwnTile own = own_tile(t, c, static_cast<int>(blockIdx.x), warps);
  const int tokens = c.tokens(t);
  const int row = own.begin + warp_id();
  const std::int64_t own_token = own_keys ? c.key_token(t, own.chunk) : c.query_token(t, own.chunk);
  const int shared_heads = own_keys ? s.heads / s.kv_heads : 1;
  const int kv = own_keys ? static_cast<int>(blockIdx.y) : s.kv_head(static_cast<int>(blockIdx.y));
  const auto keys = [&](std::int64_t token) { return s.key(o.keys, keys_in(s, c), token, kv); };
  const auto values = [&](std::int64_t token) { return s.value(o.keys, keys_in(s, c), token, kv); };
  const TileRange<Chunks> met = tiles_met<own_keys>(t, c, own, warps, warp_size);
  float first_sum[held] = {};   // dQ or dK, before the scale
  float second_sum[held] = {};  // dV
  for (int i = 0; i < shared_heads; ++i) {
    const int head = static_cast<int>(blockIdx.y) * shared_heads + i;
    const auto queries = [&](std::int64_t token) { return s.query(o.qkv, token, head); };
    const auto gradients = [&](std::int64_t token) { return s.output(o.gradient, token, head); };
    if (i == 0) {
      load_own(shared, 0, own_keys ? keys(own_token) : queries(own_token), row, tokens);
      load_own(shared, 1, own_keys ? values(own_token) : gradients(own_token), row, tokens);
    }
    for (int tile = met.from; tile < met.to; ++tile) {
      const TileAt at = met.at(tile, warp_size, tokens);
      const std::int64_t token = own_keys ? c.query_token(t, at.chunk) : c.key_token(t, at.chunk);
      __syncthreads();
      load_tile(shared, 0, own_keys ? queries(token) : keys(token), at.first, tokens);
      load_tile(shared, 1, own_keys ? gradients(token) : values(token), at.first, tokens);
      __syncthreads();
      const int key = own_keys ? row : at.first + lane_id();
      const int query = own_keys ? at.first + lane_id() : row;
      float p = 0, ds = 0;
      if (key < seen.keys() && query < tokens && (!at.own || key <= query) &&
          !c.is_before(query, key)) {
        const std::int64_t place =
            static_cast<std::int64_t>(head) * s.tokens + (own_keys ? token : own_token) + query;
        const int query_place = c.query_place(own_keys ? at.chunk : own.chunk) * tokens + query;
        const int key_place = c.key_place(own_keys ? own.chunk : at.chunk) * tokens + key;
        const float factor = seen.factor(head, query_place, key_place);
        p = expf(product(shared, 0) * s.scale - o.log_sum_exp[place]);
        ds = p * (product(shared, 1) * factor - o.delta[place]);
        p *= factor;
      }
      add_rows(shared, 0, ds, first_sum);
      if (own_keys) add_rows(shared, 1, p, second_sum);
    }
  }
  const int head = static_cast<int>(blockIdx.y);
  if (own_keys) {
    const KeyRows in = gradients_in(s, c);
    store_own(s.scale, first_sum, s.head_dim, s.key(o.keys_gradient, in, own_token, head), row,
              tokens);
    store_own(1.0f, second_sum, s.value_dim, s.value(o.keys_gradient, in, own_token, head), row,
              tokens);
  } else {
    store_own(s.scale, first_sum, s.head_dim, s.query(o.qkv_gradient, own_token, head), row,
              tokens);
  }
}

Shape grid(const char* name, const PlainSizes& s, unsigned tiles, int heads, StreamHandle stream) {
  return {
      .name = name,
      .blocks = {tiles, static_cast<unsigned>(heads), static_cast<unsigned>(s.tokens / s.sequence)},
      .threads = warps * warp_size,
      .shared_bytes = shared_bytes(s),
      .stream = stream};
}

// visit(Constant<held>{})
template <class Visit>
void with_held(const PlainSizes& s, Visit visit) {
  if (s.head_dim <= 128 && s.value_dim <= 128) return visit(Constant<4>{});
  visit(Constant<8>{});
}

}  // namespace

template <class T, class Chunks>
void plain_attention(const PlainSizes& sizes, const Chunks& chunks, const ScoreRules& rules,
                     const PlainForward<T>& operands, StreamHandle stream) {
  const unsigned tiles =
      own_tiles(chunks.query_chunks(), chunks.tokens(of_tensor_cores(sizes)), warps);
  with_held(sizes, [&](auto held) {
    launch(grid("attention_forward", sizes, tiles, sizes.heads, stream),
           plain_attention_kernel<decltype(held)::value, T, Chunks>, sizes, chunks, rules,
           operands);
  });
}

template <class T, class Chunks>
void plain_attention_backward(const PlainSizes& sizes, const Chunks& chunks,
                              const ScoreRules& rules, const PlainBackward<T>& operands,
                              StreamHandle stream) {
  const unsigned keys =
      own_tiles(chunks.key_chunks(), chunks.tokens(of_tensor_cores(sizes)), warps);
  const unsigned queries =
      own_tiles(chunks.query_chunks(), chunks.tokens(of_tensor_cores(sizes)), warps);
  with_held(sizes, [&](auto held) {
    constexpr int n = decltype(held)::value;
    launch(grid("attention_backward (keys)", sizes, keys, sizes.kv_heads, stream),
           plain_attention_backward_kernel<true, n, T, Chunks>, sizes, chunks, rules, operands);
    launch(grid("attention_backward (queries)", sizes, queries, sizes.heads, stream),
           plain_attention_backward_kernel<false, n, T, Chunks>, sizes, chunks, rules, operands);
  });
}

#define STEPCAST_PLAIN_ATTENTION(T, Chunks)                                                   \
  template void plain_attention(const PlainSizes&, const Chunks&, const ScoreRules&,          \
                                const PlainForward<T>&, StreamHandle);                        \
  template void plain_attention_backward(const PlainSizes&, const Chunks&, const ScoreRules&, \
                                         const PlainBackward<T>&, StreamHandle);
STEPCAST_PLAIN_ATTENTION(float, Whole)
STEPCAST_PLAIN_ATTENTION(float, Windows)
STEPCAST_PLAIN_ATTENTION(float, Slices)
STEPCAST_PLAIN_ATTENTION(Bf16, Whole)
STEPCAST_PLAIN_ATTENTION(Bf16, Windows)
STEPCAST_PLAIN_ATTENTION(Bf16, Slices)
#undef STEPCAST_PLAIN_ATTENTION

}  // namespace real::kernels
