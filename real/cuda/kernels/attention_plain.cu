// Attention without tensor cores: in fp32, for runs whose numbers must agree with the host's, and
// in bf16 where the kernels of the tensor cores do not take it (attention.cu). The same algorithms;
// a warp owns one row, and a lane one row of the other side's tile while products are made, or
// every 32nd element of the row while they are summed.
#include "real/cuda/kernels/attention.cuh"
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
      : widths{s.head_dim, s.values()}, memory{start} {}
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
__device__ __forceinline__ void load_tile(const PlainSizes& s, const Shared& shared, int which,
                                          const HeadView<const T>& from, int first) {
  const int width = shared.widths[which];
  for (int i = static_cast<int>(threadIdx.x); i < warp_size * width; i += warps * warp_size) {
    const int row = i / width, element = i % width;
    const std::int64_t at = static_cast<std::int64_t>(first + row) * from.stride + element;
    shared.row(which, row)[element] = first + row < s.sequence ? to_float(from.rows[at]) : 0.0f;
  }
}
template <class T>
__device__ __forceinline__ void load_own(const PlainSizes& s, const Shared& shared, int which,
                                         const HeadView<const T>& from, int row) {
  const std::int64_t at = static_cast<std::int64_t>(row) * from.stride;
  for (int i = lane_id(); i < shared.widths[which]; i += warp_size)
    shared.own(which)[i] = row < s.sequence ? to_float(from.rows[at + i]) : 0.0f;
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
__device__ __forceinline__ void store_own(const PlainSizes& s, float factor,
                                          const float (&sum)[held], int width,
                                          const HeadView<T>& to, int row) {
  if (row >= s.sequence) return;
#pragma unroll
  for (int i = 0; i < held; ++i) {
    const int element = lane_id() + i * warp_size;
    if (element < width)
      to.rows[static_cast<std::int64_t>(row) * to.stride + element] =
          from_float<T>(sum[i] * factor);
  }
}

struct Later {
  __device__ int operator()(int a, int b) const { return a > b ? a : b; }
};

// What the rules say of the block's sequence. All lanes of a warp make it together.
class Seen {
 public:
  __device__ Seen(const PlainSizes& s, const ScoreRules& rules)
      : drops_{rules.dropout.probability > 0},
        mask_{rules.dropout},
        sequence_{s.sequence},
        first_{((rules.first_sequence + blockIdx.z) * rules.all_heads + rules.first_head) *
               s.sequence},
        keys_{s.sequence} {
    if (rules.tokens.ids == nullptr) return;
    int end = 1;
    for (int i = lane_id(); i < s.sequence; i += warp_size)
      if (rules.tokens[blockIdx.z * std::int64_t{s.sequence} + i] != rules.padding) end = i + 1;
    keys_ = combine_warp(end, Later{});
  }
  // Those before the padding.
  __device__ int keys() const { return keys_; }
  // Of a probability: 0 or 1 / (1 - p).
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

template <int held, class T>
__global__ void plain_attention_kernel(PlainSizes s, ScoreRules rules, const T* qkv, T* output,
                                       float* log_sum_exp) {
  const Shared shared{s, shared_memory<float>()};
  Seen seen{s, rules};
  const int begin = static_cast<int>(blockIdx.x) * warps;
  const int query = begin + warp_id();
  const int head = static_cast<int>(blockIdx.y);
  const std::int64_t first_token = static_cast<std::int64_t>(blockIdx.z) * s.sequence;
  const int end = s.causal && begin + warps < seen.keys() ? begin + warps : seen.keys();
  load_own(s, shared, 0, s.query(qkv, first_token, head), query);
  float maximum = -infinity, sum = 0;
  float out[held] = {};
  for (int first = 0; first < end; first += warp_size) {
    __syncthreads();
    load_tile(s, shared, 0, s.key(qkv, s.in_qkv(), first_token, s.kv_head(head)), first);
    load_tile(s, shared, 1, s.value(qkv, s.in_qkv(), first_token, s.kv_head(head)), first);
    __syncthreads();
    const int key = first + lane_id();
    const bool masked = key >= seen.keys() || (s.causal && key > query);
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
    add_rows(shared, 1, masked ? 0.0f : p * seen.factor(head, query, key), out);
  }
  store_own(s, 1.0f / sum, out, s.values(), s.output(output, first_token, head), query);
  if (lane_id() == 0 && query < s.sequence && log_sum_exp != nullptr)
    log_sum_exp[static_cast<std::int64_t>(head) * s.tokens + first_token + query] =
        maximum + logf(sum);
}

// Rows are keys (own: key, value; other side: query, gradient) or queries (own: query, gradient;
// other side: key, value). With dropout, M the factors: dV = (M P)^T dO, dS = P (M dP - delta).
template <bool own_keys, int held, class T>
__global__ void plain_attention_backward_kernel(PlainSizes s, ScoreRules rules,
                                                PlainBackward<T> o) {
  const Shared shared{s, shared_memory<float>()};
  Seen seen{s, rules};
  const int begin = static_cast<int>(blockIdx.x) * warps;
  const int row = begin + warp_id();
  const std::int64_t first_token = static_cast<std::int64_t>(blockIdx.z) * s.sequence;
  const int shared_heads = own_keys ? s.heads / s.kv_heads : 1;
  const int kv = own_keys ? static_cast<int>(blockIdx.y) : s.kv_head(static_cast<int>(blockIdx.y));
  const auto keys = s.key(o.qkv, s.in_qkv(), first_token, kv);
  const auto values = s.value(o.qkv, s.in_qkv(), first_token, kv);
  const int from = own_keys && s.causal ? begin / warp_size * warp_size : 0;
  const int limit = own_keys ? s.sequence : seen.keys();
  const int to = !own_keys && s.causal && begin + warps < limit ? begin + warps : limit;
  float first_sum[held] = {};   // dQ or dK, before the scale
  float second_sum[held] = {};  // dV
  for (int i = 0; i < shared_heads; ++i) {
    const int head = static_cast<int>(blockIdx.y) * shared_heads + i;
    const auto queries = s.query(o.qkv, first_token, head);
    const auto gradients = s.output(o.gradient, first_token, head);
    if (i == 0) {
      load_own(s, shared, 0, own_keys ? keys : queries, row);
      load_own(s, shared, 1, own_keys ? values : gradients, row);
    }
    for (int first = from; first < to; first += warp_size) {
      __syncthreads();
      load_tile(s, shared, 0, own_keys ? queries : keys, first);
      load_tile(s, shared, 1, own_keys ? gradients : values, first);
      __syncthreads();
      const int key = own_keys ? row : first + lane_id();
      const int query = own_keys ? first + lane_id() : row;
      float p = 0, ds = 0;
      if (key < seen.keys() && query < s.sequence && (!s.causal || key <= query)) {
        const std::int64_t at = static_cast<std::int64_t>(head) * s.tokens + first_token + query;
        const float factor = seen.factor(head, query, key);
        p = expf(product(shared, 0) * s.scale - o.log_sum_exp[at]);
        ds = p * (product(shared, 1) * factor - o.delta[at]);
        p *= factor;
      }
      add_rows(shared, 0, ds, first_sum);
      if (own_keys) add_rows(shared, 1, p, second_sum);
    }
  }
  const int head = static_cast<int>(blockIdx.y);
  if (own_keys) {
    store_own(s, s.scale, first_sum, s.head_dim,
              s.key(o.qkv_gradient, s.in_qkv(), first_token, head), row);
    store_own(s, 1.0f, second_sum, s.values(),
              s.value(o.qkv_gradient, s.in_qkv(), first_token, head), row);
  } else {
    store_own(s, s.scale, first_sum, s.head_dim, s.query(o.qkv_gradient, first_token, head), row);
  }
}

Shape grid(const char* name, const PlainSizes& s, int heads, StreamHandle stream) {
  return {.name = name,
          .blocks = {static_cast<unsigned>(divide_up(s.sequence, warps)),
                     static_cast<unsigned>(heads), static_cast<unsigned>(s.tokens / s.sequence)},
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

template <class T>
void plain_attention(const PlainSizes& sizes, const ScoreRules& rules, const T* qkv, T* output,
                     float* log_sum_exp, StreamHandle stream) {
  with_held(sizes, [&](auto held) {
    launch(grid("attention_forward", sizes, sizes.heads, stream),
           plain_attention_kernel<decltype(held)::value, T>, sizes, rules, qkv, output,
           log_sum_exp);
  });
}

template <class T>
void plain_attention_backward(const PlainSizes& sizes, const ScoreRules& rules,
                              const PlainBackward<T>& operands, StreamHandle stream) {
  with_held(sizes, [&](auto held) {
    constexpr int n = decltype(held)::value;
    launch(grid("attention_backward (keys)", sizes, sizes.kv_heads, stream),
           plain_attention_backward_kernel<true, n, T>, sizes, rules, operands);
    launch(grid("attention_backward (queries)", sizes, sizes.heads, stream),
           plain_attention_backward_kernel<false, n, T>, sizes, rules, operands);
  });
}

template void plain_attention(const PlainSizes&, const ScoreRules&, const float*, float*, float*,
                              StreamHandle);
template void plain_attention(const PlainSizes&, const ScoreRules&, const Bf16*, Bf16*, float*,
                              StreamHandle);
template void plain_attention_backward(const PlainSizes&, const ScoreRules&,
                                       const PlainBackward<float>&, StreamHandle);
template void plain_attention_backward(const PlainSizes&, const ScoreRules&,
                                       const PlainBackward<Bf16>&, StreamHandle);

}  // namespace real::kernels
