// Attention in fp32, without tensor cores: for runs whose numbers must agree with the host's. The
// same algorithms as in bf16; a warp owns one row, and a lane one row of the other side's tile
// while products are made, or every 32nd element of the row while they are summed.
#include "real/cuda/kernels/attention.cuh"

namespace real::kernels {
namespace {

constexpr int warps = 8;
constexpr int most_elements = 128 / warp_size;  // of a row that a lane holds
constexpr float infinity = __builtin_huge_valf();

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
                                          const HeadView<const float>& from, std::int64_t first) {
  for (std::int64_t i = threadIdx.x; i < warp_size * s.head_dim; i += blockDim.x) {
    const std::int64_t row = i / s.head_dim;
    const std::int64_t element = i % s.head_dim;
    shared.row(which, static_cast<int>(row))[element] =
        first + row < s.sequence ? from.rows[(first + row) * from.stride + element] : 0.0f;
  }
}
__device__ __forceinline__ void load_own(const AttentionSizes& s, const Shared& shared, int which,
                                         const HeadView<const float>& from, std::int64_t row) {
  for (std::int64_t i = lane_id(); i < s.head_dim; i += warp_size)
    shared.own(which)[i] = row < s.sequence ? from.rows[row * from.stride + i] : 0.0f;
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
                                          const HeadView<float>& to, std::int64_t row) {
  if (row >= s.sequence) return;
#pragma unroll
  for (int i = 0; i < most_elements; ++i) {
    const int element = lane_id() + i * warp_size;
    if (element < s.head_dim) to.rows[row * to.stride + element] = sum[i] * factor;
  }
}

__global__ void forward_kernel(AttentionSizes s, const float* qkv, float* output,
                               float* log_sum_exp) {
  const Shared shared{s.head_dim, shared_memory<float>()};
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * warps;
  const std::int64_t query = begin + warp_id();
  const int head = static_cast<int>(blockIdx.y);
  const std::int64_t first_token = static_cast<std::int64_t>(blockIdx.z) * s.sequence;
  const std::int64_t end = s.causal && begin + warps < s.sequence ? begin + warps : s.sequence;
  load_own(s, shared, 0, s.query(qkv, first_token, head), query);
  float maximum = -infinity, sum = 0;
  float out[most_elements] = {};
  for (std::int64_t first = 0; first < end; first += warp_size) {
    __syncthreads();
    load_tile(s, shared, 0, s.key(qkv, first_token, s.kv_head(head)), first);
    load_tile(s, shared, 1, s.value(qkv, first_token, s.kv_head(head)), first);
    __syncthreads();
    const std::int64_t key = first + lane_id();
    const bool masked = key >= s.sequence || (s.causal && key > query);
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
  store_own(s, 1.0f / sum, out, s.output(output, first_token, head), query);
  if (lane_id() == 0 && query < s.sequence && log_sum_exp != nullptr)
    log_sum_exp[static_cast<std::int64_t>(head) * s.tokens + first_token + query] =
        maximum + logf(sum);
}

// Rows are keys (own: key, value; other side: query, gradient) or queries (own: query, gradient;
// other side: key, value).
template <bool own_keys>
__global__ void backward_kernel(AttentionSizes s, AttentionBackwardFp32 o) {
  const Shared shared{s.head_dim, shared_memory<float>()};
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * warps;
  const std::int64_t row = begin + warp_id();
  const std::int64_t first_token = static_cast<std::int64_t>(blockIdx.z) * s.sequence;
  const int shared_heads = own_keys ? s.heads / s.kv_heads : 1;
  const int kv = own_keys ? static_cast<int>(blockIdx.y) : s.kv_head(static_cast<int>(blockIdx.y));
  const auto keys = s.key(o.qkv, first_token, kv);
  const auto values = s.value(o.qkv, first_token, kv);
  const std::int64_t from = own_keys && s.causal ? begin / warp_size * warp_size : 0;
  const std::int64_t to =
      !own_keys && s.causal && begin + warps < s.sequence ? begin + warps : s.sequence;
  float first_sum[most_elements] = {};   // dQ or dK, before the scale
  float second_sum[most_elements] = {};  // dV
  for (int i = 0; i < shared_heads; ++i) {
    const int head = static_cast<int>(blockIdx.y) * shared_heads + i;
    const auto queries = s.query(o.qkv, first_token, head);
    const auto gradients = s.output(o.gradient, first_token, head);
    if (i == 0) {
      load_own(s, shared, 0, own_keys ? keys : queries, row);
      load_own(s, shared, 1, own_keys ? values : gradients, row);
    }
    for (std::int64_t first = from; first < to; first += warp_size) {
      __syncthreads();
      load_tile(s, shared, 0, own_keys ? queries : keys, first);
      load_tile(s, shared, 1, own_keys ? gradients : values, first);
      __syncthreads();
      const std::int64_t key = own_keys ? row : first + lane_id();
      const std::int64_t query = own_keys ? first + lane_id() : row;
      float p = 0, ds = 0;
      if (key < s.sequence && query < s.sequence && (!s.causal || key <= query)) {
        const std::int64_t at = static_cast<std::int64_t>(head) * s.tokens + first_token + query;
        p = expf(product(s, shared, 0) * s.scale - o.log_sum_exp[at]);
        ds = p * (product(s, shared, 1) - o.delta[at]);
      }
      add_rows(s, shared, 0, ds, first_sum);
      if (own_keys) add_rows(s, shared, 1, p, second_sum);
    }
  }
  const int head = static_cast<int>(blockIdx.y);
  if (own_keys) {
    store_own(s, s.scale, first_sum, s.key(o.qkv_gradient, first_token, head), row);
    store_own(s, 1.0f, second_sum, s.value(o.qkv_gradient, first_token, head), row);
  } else {
    store_own(s, s.scale, first_sum, s.query(o.qkv_gradient, first_token, head), row);
  }
}

Shape grid(const char* name, const AttentionSizes& s, std::int64_t heads, StreamHandle stream) {
  return {.name = name,
          .blocks = {static_cast<unsigned>(divide_up(s.sequence, warps)),
                     static_cast<unsigned>(heads), static_cast<unsigned>(s.tokens / s.sequence)},
          .threads = warps * warp_size,
          .shared_bytes = shared_bytes(s),
          .stream = stream};
}

}  // namespace

void attention_forward_fp32(const AttentionSizes& sizes, const float* qkv, float* output,
                            float* log_sum_exp, StreamHandle stream) {
  launch(grid("attention_forward", sizes, sizes.heads, stream), forward_kernel, sizes, qkv, output,
         log_sum_exp);
}

void attention_backward_fp32(const AttentionSizes& sizes, const AttentionBackwardFp32& operands,
                             StreamHandle stream) {
  launch(grid("attention_backward (keys)", sizes, sizes.kv_heads, stream), backward_kernel<true>,
         sizes, operands);
  launch(grid("attention_backward (queries)", sizes, sizes.heads, stream), backward_kernel<false>,
         sizes, operands);
}

}  // namespace real::kernels
