// LAMB (You et al. 2020, as DeepSpeed's fused kernel has it: real/host/kernels/kernels_lamb.cpp).
// Two launches for each tensor: its moments and the sums of two norms, then its weights.
#include "real/cuda/kernels/launch.cuh"
#include "real/engine/kernels/lamb.hpp"

namespace real::kernels {
namespace {

constexpr unsigned block_threads = 256;

struct Constants {
  float beta1, beta2, epsilon, decay;
};

// Part is a tensor of a bucket.
template <class W, class G>
struct Part {
  std::int64_t count;
  W* weight;
  float* master;  // null: the weight
  float* m;
  float* v;
  const G* gradient;
  __device__ float value(std::int64_t i) const {
    return master != nullptr ? master[i] : to_float(weight[i]);
  }
  __device__ float direction(const Constants& c, std::int64_t i, float value) const {
    return m[i] / (sqrtf(v[i]) + c.epsilon) + c.decay * value;
  }
};

__device__ __forceinline__ bool is_gated(const AdamState& state) {
  return state.gate != nullptr && !(fabsf(*state.gate) <= 3.402823466e38f);
}

// sums: of the squares of weights, and of the update, from each block.
template <class W, class G>
__global__ void lamb_moments_kernel(Constants c, AdamState state, Part<W, G> part, double* sums) {
  if (is_gated(state)) return;
  const float clip = state.clip_scale != nullptr ? *state.clip_scale : 1.0f;
  double weights = 0, update = 0;
  for (std::int64_t i = global_thread(); i < part.count; i += global_threads()) {
    const float g = to_float(part.gradient[i]) * clip, w = part.value(i);
    part.m[i] = c.beta1 * part.m[i] + (1.0f - c.beta1) * g;
    part.v[i] = c.beta2 * part.v[i] + (1.0f - c.beta2) * g * g;
    const auto step = static_cast<double>(part.direction(c, i, w));
    weights += static_cast<double>(w) * static_cast<double>(w);
    update += step * step;
  }
  auto* scratch = shared_memory<double>();
  weights = combine_block(weights, Sum{}, scratch);
  update = combine_block(update, Sum{}, scratch);
  if (threadIdx.x != 0) return;
  sums[2 * blockIdx.x] = weights;
  sums[2 * blockIdx.x + 1] = update;
}

// Every block adds up all sums, in the same order.
__device__ __forceinline__ float coefficient_of(const double* sums) {
  auto* scratch = shared_memory<double>();
  double weights = 0, update = 0;
  for (unsigned i = threadIdx.x; i < gridDim.x; i += blockDim.x) {
    weights += sums[2 * i];
    update += sums[2 * i + 1];
  }
  weights = combine_block(weights, Sum{}, scratch);
  update = combine_block(update, Sum{}, scratch);
  if (weights == 0 || update == 0) return 1.0f;
  return fminf(fmaxf(static_cast<float>(sqrt(weights / update)), lamb_least), lamb_most);
}

template <class W, class G>
__global__ void lamb_weights_kernel(Constants c, AdamState state, Part<W, G> part,
                                    const double* sums) {
  if (is_gated(state)) return;
  const AdamStep& step = *state.step;
  const auto rate = static_cast<float>(step.rate * sqrt(step.correction2) / step.correction1);
  const float by = rate * coefficient_of(sums);
  for (std::int64_t i = global_thread(); i < part.count; i += global_threads()) {
    const float w = part.value(i);
    const float moved = w - by * part.direction(c, i, w);
    if (part.master != nullptr) part.master[i] = moved;
    part.weight[i] = from_float<W>(moved);
  }
}

template <class W, class G>
void update(const Constants& c, const AdamState& state, const Part<W, G>& part, double* sums,
            StreamHandle stream) {
  if (part.count == 0) return;
  const std::int64_t wanted = divide_up(part.count, block_threads);
  const std::int64_t blocks = wanted < lamb_blocks ? wanted : lamb_blocks;
  const Shape grid{.name = "lamb",
                   .blocks = {static_cast<unsigned>(blocks)},
                   .threads = block_threads,
                   .shared_bytes = block_threads / warp_size * sizeof(double),
                   .stream = stream};
  launch(grid, lamb_moments_kernel<W, G>, c, state, part, sums);
  launch(grid, lamb_weights_kernel<W, G>, c, state, part, sums);
}

}  // namespace

void lamb(const Adam& settings, const AdamState& state, std::span<const BoundTensor> tensors,
          Workspace workspace, StreamHandle stream) {
  require_workspace("lamb", workspace, lamb_workspace);
  if (state.master == nullptr && state.weight_dtype != sim::DType::fp32)
    refuse("lamb", "weights that are not fp32 need a master copy");
  with_type("lamb", state.weight_dtype, [&](auto weight_type) {
    using W = typename decltype(weight_type)::type;
    with_type("lamb", state.gradient_dtype, [&](auto gradient_type) {
      using G = typename decltype(gradient_type)::type;
      for (const BoundTensor& tensor : tensors) {
        const Constants constants{static_cast<float>(settings.beta1),
                                  static_cast<float>(settings.beta2),
                                  static_cast<float>(settings.epsilon),
                                  tensor.decayed ? static_cast<float>(settings.decay) : 0.0f};
        const std::int64_t at = tensor.first;
        const Part<W, G> part{tensor.count,
                              as<W>(state.weight) + at,
                              state.master != nullptr ? state.master + at : nullptr,
                              as<float>(state.m) + at,
                              as<float>(state.v) + at,
                              as<G>(state.gradient) + at};
        update(constants, state, part, static_cast<double*>(workspace.memory), stream);
      }
    });
  });
}

}  // namespace real::kernels
