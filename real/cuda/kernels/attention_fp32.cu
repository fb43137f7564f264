// Attention on slices of context ranks in fp32, without tensor cores: for runs whose numbers must
// agree with the host's (whole sequences: attention_plain.cu). The same algorithms as in bf16; a
// warp owns one row, and a lane one row of the other side's tile while products are made, or every
// 32nd element of the row while they are summed.
#include "real/cuda/kernels/attention_chunks.cuh"

namespace real::kernels {
namespace {

constexpr int warps = 8;
constexpr int most_elements = 128 / warp_size;  // of a row that a lane holds

// Shared memory: two tiles of the other side, 32 rows padded by one element against bank conflicts,
// and the warp's own two rows.
struct Shared {
  std::int64_t head_dim;
  float* memory;
  __device__ float* row(int which, int r) const {
    return memory + (which * warp_size + r) * (head_dim + 1);
  }
  __device__ float* own(int which) const {
    return memory + 2 * warp_size * (head_dim + 1) + (warp_id() * 2 + which) * head_dim;
  }
};
std::size_t shared_bytes(const AttentionSizes& s) {
  return static_cast<std::size_t>(2 * warp_size * (s.head_dim + 1) + warps * 2 * s.head_dim) *
         sizeof(float);
}

__device__ __forceinline__ void load_tile(const AttentionSizes& s, const Shared& shared, int which,
                                          const HeadView<const float>& from, std::int64_t first,
                                          int limit) {
  for (std::int64_t i = threadIdx.x; i < warp_size * s.head_dim; i += blockDim.x) {
    const std::int64_t row = i / s.head_dim;
    const std::int64_t element = i % s.head_dim;
    shared.row(which, static_cast<int>(row))[element] =
        first + row < limit ? from.rows[(first + row) * from.stride + element] : 0.0f;
  }
}
__device__ __forceinline__ void load_own(const AttentionSizes& s, const Shared& shared, int which,
                                         const HeadView<const float>& from, std::int64_t row,
                                         int limit) {
  for (std::int64_t i = lane_id(); i < s.head_dim; i += warp_size)
    shared.own(which)[i] = row < limit ? from.rows[row * from.stride + i] : 0.0f;
}
// Own row times the lane's row of the tile.
__device__ __forceinline__ float product(const AttentionSizes& s, const Shared& shared, int which) {
  const float* own = shared.own(which);
  const float* other = shared.row(which, lane_id());
  float sum = 0;
  for (std::int64_t i = 0; i < s.head_dim; ++i)
    sum += own[i] * other[i];
  return sum;
}
// sum += the lanes' weights times the rows of the tile.
__device__ __forceinline__ void add_rows(const AttentionSizes& s, const Shared& shared, int which,
                                         float weight, float (&sum)[most_elements]) {
  for (int row = 0; row < warp_size; ++row) {
    const float w = __shfl_sync(all_lanes, weight, row);
#pragma unroll
    for (int i = 0; i < most_elements; ++i) {
      const int element = lane_id() + i * warp_size;
      if (element < s.head_dim) sum[i] += w * shared.row(which, row)[element];
    }
  }
}
__device__ __forceinline__ void store_own(const AttentionSizes& s, float factor,
                                          const float (&sum)[most_elements],
                                          const HeadView<float>& to, std::int64_t row, int limit) {
  if (row >= limit) return;
#pragma unroll
  for (int i = 0; i < most_elements; ++i) {
    const int element = lane_id() + i * warp_size;
    if (element < s.head_dim) to.rows[row * to.stride + element] = sum[i] * factor;
  }
}

template <class Chunks>
__global__ void forward_kernel(AttentionSizes s, Chunks c, AttentionForwardFp32 o) {
  const Shared shared{s.head_dim, shared_memory<float>()};
  const OwnTile own = own_tile(s, c, static_cast<int>(blockIdx.x), warps);
  const int tokens = c.tokens(s);
  const int query = own.begin + warp_id();
  const int head = static_cast<int>(blockIdx.y);
  const std::int64_t first_token = c.query_token(s, own.chunk);
  const TileRange<Chunks> met = tiles_met<false>(s, c, own, warps, warp_size);
  load_own(s, shared, 0, s.query(o.qkv, first_token, head), query, tokens);
  float maximum = -infinity, sum = 0;
  float out[most_elements] = {};
  for (int tile = met.from; tile < met.to; ++tile) {
    const TileAt at = met.at(tile, warp_size, tokens);
    const std::int64_t from = c.key_token(s, at.chunk);
    __syncthreads();
    load_tile(s, shared, 0, s.key(o.keys, c.keys(s), from, s.kv_head(head)), at.first, tokens);
    load_tile(s, shared, 1, s.value(o.keys, c.keys(s), from, s.kv_head(head)), at.first, tokens);
    __syncthreads();
    const int key = at.first + lane_id();
    const bool masked = key >= tokens || (at.own && key > query);
    const float score = masked ? -infinity : product(s, shared, 0) * s.scale;
    const float before = maximum;
    maximum = combine_warp(fmaxf(before, score), Maximum{});
    const float shift = maximum == -infinity ? 0.0f : maximum;
    const float correction = expf(before - shift);
    const float p = expf(score - shift);
    sum = sum * correction + combine_warp(p, Sum{});
#pragma unroll
    for (int i = 0; i < most_elements; ++i)
      out[i] *= correction;
    add_rows(s, shared, 1, p, out);
  }
  store_own(s, sum == 0.0f ? 0.0f : 1.0f / sum, out, s.output(o.output, first_token, head), query,
            tokens);
  if (lane_id() == 0 && query < tokens && o.log_sum_exp != nullptr)
    o.log_sum_exp[static_cast<std::int64_t>(head) * s.tokens + first_token + query] =
        sum == 0.0f ? lowest_float : maximum + logf(sum);
}

// Rows are keys (own: key, value; other side: query, gradient) or queries (own: query, gradient;
// other side: key, value).
template <bool own_keys, class Chunks>
__global__ void backward_kernel(AttentionSizes s, Chunks c, AttentionBackwardFp32 o) {
  const Shared shared{s.head_dim, shared_memory<float>()};
  const OwnTile own = own_tile(s, c, static_cast<int>(blockIdx.x), warps);
  const int tokens = c.tokens(s);
  const int row = own.begin + warp_id();
  const std::int64_t own_token = own_keys ? c.key_token(s, own.chunk) : c.query_token(s, own.chunk);
  const int shared_heads = own_keys ? s.heads / s.kv_heads : 1;
  const int kv = own_keys ? static_cast<int>(blockIdx.y) : s.kv_head(static_cast<int>(blockIdx.y));
  const auto keys = [&](std::int64_t token) { return s.key(o.keys, c.keys(s), token, kv); };
  const auto values = [&](std::int64_t token) { return s.value(o.keys, c.keys(s), token, kv); };
  const TileRange<Chunks> met = tiles_met<own_keys>(s, c, own, warps, warp_size);
  float first_sum[most_elements] = {};   // dQ or dK, before the scale
  float second_sum[most_elements] = {};  // dV
  for (int i = 0; i < shared_heads; ++i) {
    const int head = static_cast<int>(blockIdx.y) * shared_heads + i;
    const auto queries = [&](std::int64_t token) { return s.query(o.qkv, token, head); };
    const auto gradients = [&](std::int64_t token) { return s.output(o.gradient, token, head); };
    if (i == 0) {
      load_own(s, shared, 0, own_keys ? keys(own_token) : queries(own_token), row, tokens);
      load_own(s, shared, 1, own_keys ? values(own_token) : gradients(own_token), row, tokens);
    }
    for (int tile = met.from; tile < met.to; ++tile) {
      const TileAt at = met.at(tile, warp_size, tokens);
      const std::int64_t token = own_keys ? c.query_token(s, at.chunk) : c.key_token(s, at.chunk);
      __syncthreads();
      load_tile(s, shared, 0, own_keys ? queries(token) : keys(token), at.first, tokens);
      load_tile(s, shared, 1, own_keys ? gradients(token) : values(token), at.first, tokens);
      __syncthreads();
      const int key = own_keys ? row : at.first + lane_id();
      const int query = own_keys ? at.first + lane_id() : row;
      float p = 0, ds = 0;
      if (key < tokens && query < tokens && (!at.own || key <= query)) {
        const std::int64_t place =
            static_cast<std::int64_t>(head) * s.tokens + (own_keys ? token : own_token) + query;
        p = expf(product(s, shared, 0) * s.scale - o.log_sum_exp[place]);
        ds = p * (product(s, shared, 1) - o.delta[place]);
      }
      add_rows(s, shared, 0, ds, first_sum);
      if (own_keys) add_rows(s, shared, 1, p, second_sum);
    }
  }
  const int head = static_cast<int>(blockIdx.y);
  if (own_keys) {
    store_own(s, s.scale, first_sum, s.key(o.keys_gradient, c.gradients(s), own_token, head), row,
              tokens);
    store_own(s, 1.0f, second_sum, s.value(o.keys_gradient, c.gradients(s), own_token, head), row,
              tokens);
  } else {
    store_own(s, s.scale, first_sum, s.query(o.qkv_gradient, own_token, head), row, tokens);
  }
}

Shape grid(const char* name, const AttentionSizes& s, unsigned tiles, int heads,
           StreamHandle stream) {
  return {
      .name = name,
      .blocks = {tiles, static_cast<unsigned>(heads), static_cast<unsigned>(s.tokens / s.sequence)},
      .threads = warps * warp_size,
      .shared_bytes = shared_bytes(s),
      .stream = stream};
}

}  // namespace

template <class Chunks>
void attention_forward_fp32(const AttentionSizes& sizes, const Chunks& chunks,
                            const AttentionForwardFp32& operands, StreamHandle stream) {
  const unsigned tiles = own_tiles(chunks.query_chunks(), chunks.tokens(sizes), warps);
  launch(grid("attention_forward", sizes, tiles, sizes.heads, stream), forward_kernel<Chunks>,
         sizes, chunks, operands);
}

template <class Chunks>
void attention_backward_fp32(const AttentionSizes& sizes, const Chunks& chunks,
                             const AttentionBackwardFp32& operands, StreamHandle stream) {
  const unsigned keys = own_tiles(chunks.key_chunks(), chunks.tokens(sizes), warps);
  const unsigned queries = own_tiles(chunks.query_chunks(), chunks.tokens(sizes), warps);
  launch(grid("attention_backward (keys)", sizes, keys, sizes.kv_heads, stream),
         backward_kernel<true, Chunks>, sizes, chunks, operands);
  launch(grid("attention_backward (queries)", sizes, queries, sizes.heads, stream),
         backward_kernel<false, Chunks>, sizes, chunks, operands);
}

template void attention_forward_fp32(const AttentionSizes&, const Slices&,
                                     const AttentionForwardFp32&, StreamHandle);
template void attention_backward_fp32(const AttentionSizes&, const Slices&,
                                      const AttentionBackwardFp32&, StreamHandle);

}  // namespace real::kernels
