#include "real/host/kernels_local_steps.hpp"

namespace real::host {
namespace {

using kernels::StreamHandle;

void outer_gradient(std::int64_t elements, const float* own, const float* last, float* message,
                    StreamHandle) {
  for (std::int64_t i = 0; i < elements; ++i)
    message[i] = last != nullptr ? last[i] - own[i] : own[i];
}

// What the ranks agree on.
float common_value(const kernels::OuterUpdate& update, const kernels::OuterState& state,
                   std::int64_t i) {
  if (!update.nesterov) return state.message[i];
  const float gradient = state.message[i];
  state.velocity[i] = update.momentum * state.velocity[i] + gradient;
  state.last[i] -= update.rate * (gradient + update.momentum * state.velocity[i]);
  return state.last[i];
}

void apply_outer(const kernels::OuterUpdate& update, const kernels::OuterState& state,
                 std::int64_t elements, StreamHandle) {
  float* own = state.master != nullptr ? state.master : state.weight;
  for (std::int64_t i = 0; i < elements; ++i) {
    const float common = common_value(update, state, i);
    own[i] = update.mix == 0 ? common : update.mix * own[i] + (1 - update.mix) * common;
    state.weight[i] = own[i];
  }
}

}  // namespace

const kernels::OuterTable& host_local_steps() {
  static const kernels::OuterTable table{.outer_gradient = outer_gradient,
                                         .apply_outer = apply_outer};
  return table;
}

}  // namespace real::host
