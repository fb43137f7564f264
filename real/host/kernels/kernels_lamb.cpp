// deepspeedai/DeepSpeed at edaa7221: csrc/lamb/fused_lamb_cuda_kernel.cu, and runtime/fp16/onebit/
// lamb.py with its defaults. The coefficient of the warm-up is that of its last weights and
// moments; DeepSpeed keeps a running mean over the steps.
#include "real/host/kernels/kernels_lamb.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/base/check.hpp"
#include "sim/plan/parameters/compression_work.hpp"

namespace real::host {
namespace {

using kernels::StreamHandle;

constexpr float largest_factor = 4, least_factor = 0.5F, factor_change = 0.1F;

// Part is what an update reads and writes of a tensor.
struct Part {
  float* weight = nullptr;  // master, or the weight itself
  float* copy = nullptr;
  float* m = nullptr;
  float* v = nullptr;
  const float* gradient = nullptr;
  std::int64_t count = 0;
  float decay = 0, epsilon = 0;
};

Part part_of(const kernels::Adam& settings, const kernels::AdamState& state,
             const BoundTensor& tensor) {
  SIM_CHECK(state.weight_dtype == sim::DType::fp32 && state.gradient_dtype == sim::DType::fp32 &&
            state.moment_dtype == sim::DType::fp32);
  auto* weight = static_cast<float*>(state.weight) + tensor.first;
  return {.weight = state.master != nullptr ? state.master + tensor.first : weight,
          .copy = weight,
          .m = static_cast<float*>(state.m) + tensor.first,
          .v = static_cast<float*>(state.v) + tensor.first,
          .gradient = static_cast<const float*>(state.gradient) + tensor.first,
          .count = tensor.count,
          .decay = tensor.decayed ? static_cast<float>(settings.decay) : 0.0F,
          .epsilon = static_cast<float>(settings.epsilon)};
}

bool is_gated(const kernels::AdamState& state) {
  return state.gate != nullptr && !std::isfinite(*state.gate);
}

float direction(const Part& part, std::int64_t i) {
  return part.m[i] / (std::sqrt(part.v[i]) + part.epsilon) + part.decay * part.weight[i];
}

// |weights| / |direction|, within bounds.
float coefficient_of(const Part& part) {
  double weights = 0, update = 0;
  for (std::int64_t i = 0; i < part.count; ++i) {
    const double step = direction(part, i);
    weights += double{part.weight[i]} * part.weight[i];
    update += step * step;
  }
  if (weights == 0 || update == 0) return 1;
  return std::clamp(static_cast<float>(std::sqrt(weights / update)), kernels::lamb_least,
                    kernels::lamb_most);
}

void move(const Part& part, std::int64_t i, float by) {
  part.weight[i] -= by;
  part.copy[i] = part.weight[i];
}

void lamb(const kernels::Adam& settings, const kernels::AdamState& state,
          std::span<const BoundTensor> tensors, kernels::Workspace, StreamHandle) {
  if (is_gated(state)) return;
  const auto beta1 = static_cast<float>(settings.beta1), beta2 = static_cast<float>(settings.beta2);
  const float scale = state.clip_scale != nullptr ? *state.clip_scale : 1.0F;
  const auto rate = static_cast<float>(state.step->rate * std::sqrt(state.step->correction2) /
                                       state.step->correction1);
  for (const BoundTensor& tensor : tensors) {
    const Part part = part_of(settings, state, tensor);
    for (std::int64_t i = 0; i < part.count; ++i) {
      const float gradient = part.gradient[i] * scale;
      part.m[i] = beta1 * part.m[i] + (1 - beta1) * gradient;
      part.v[i] = beta2 * part.v[i] + (1 - beta2) * gradient * gradient;
    }
    const float coefficient = coefficient_of(part);
    for (std::int64_t i = 0; i < part.count; ++i)
      move(part, i, rate * coefficient * direction(part, i));
  }
}

// By how much the coefficient of the warm-up is scaled: the largest ratio of the variance that
// stays to that of what came, of the share of the update that is not weight decay, within bounds.
float factor_of(const Part& part, const float* fresh, float last) {
  float largest = 0;
  double update = 0, without_decay = 0;
  for (std::int64_t i = 0; i < part.count; ++i) {
    const float denominator = std::sqrt(part.v[i]) + part.epsilon;
    largest = std::max(largest, denominator / (std::sqrt(fresh[i]) + part.epsilon));
    const double all = direction(part, i), alone = part.m[i] / denominator;
    update += all * all;
    without_decay += alone * alone;
  }
  float factor = largest;
  if (part.decay > 0 && update > 0) {
    const auto share = static_cast<float>(std::min(1.0, std::sqrt(without_decay / update)));
    factor = factor * share + (1 - share);
  }
  factor = std::clamp(factor, least_factor, largest_factor);
  return std::clamp(factor, last * (1 - factor_change), last * (1 + factor_change));
}

void one_bit_lamb(const kernels::Adam& settings, const kernels::AdamState& state,
                  const kernels::OneBitLamb& kept, std::span<const BoundTensor> tensors,
                  StreamHandle) {
  if (is_gated(state)) return;
  const auto beta1 = static_cast<float>(settings.beta1), beta2 = static_cast<float>(settings.beta2);
  const auto rate = static_cast<float>(state.step != nullptr ? state.step->rate : settings.rate);
  float* numbers = kept.numbers;
  for (const BoundTensor& tensor : tensors) {
    const Part part = part_of(settings, state, tensor);
    float* fresh = kept.fresh + tensor.first;
    const float scale = numbers[0];
    float &coefficient = numbers[1], &factor = numbers[2];
    if (coefficient == 0) {
      coefficient = coefficient_of(part);
      factor = 1;
      std::copy_n(part.v, part.count, fresh);
    }
    for (std::int64_t i = 0; i < part.count; ++i) {
      const float momentum = part.gradient[i] / scale;
      const float gradient = (momentum - beta1 * part.m[i]) / (1 - beta1);
      fresh[i] = beta2 * fresh[i] + (1 - beta2) * gradient * gradient;
      part.m[i] = momentum;
    }
    factor = factor_of(part, fresh, factor);
    for (std::int64_t i = 0; i < part.count; ++i)
      move(part, i, rate * coefficient * factor * direction(part, i));
    numbers += sim::lowering::lamb_numbers;
  }
}

}  // namespace

const kernels::LambTable& host_lamb() {
  static constexpr kernels::LambTable table{.lamb = lamb, .one_bit_lamb = one_bit_lamb};
  return table;
}

}  // namespace real::host
