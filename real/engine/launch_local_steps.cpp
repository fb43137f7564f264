// Meetings of ranks that train apart.
#include "real/engine/kernel_launches.hpp"
#include "sim/base/check.hpp"

namespace real {

using kernels::as_launch;
using kernels::Launch;
using sim::Action;
using sim::Role;

Launch KernelLaunches::outer_op(const BoundOp& op) {
  SIM_CHECK(parts_.outer != nullptr, static_cast<int>(op.action));
  const sim::Layout& layout = shapes_.layout();
  const BoundBucket& bucket = parts_.program.buckets.at(op.subject);
  const auto floats = [](std::byte* memory) { return reinterpret_cast<float*>(memory); };
  float* weight = floats(owned_part(bucket, bucket.weight, layout.activation_dtype));
  float* master = layout.master_weights ? floats(at(bucket.optimizer)) : nullptr;
  float* last = floats(at(bucket.outer));
  const std::int64_t elements = owned_real(bucket);
  if (op.action == Action::outer_gradient)
    return as_launch(parts_.outer->outer_gradient, elements, master != nullptr ? master : weight,
                     last, floats(at(op, Role::output)));
  const bool nesterov = layout.outer == sim::OuterOptimizer::nesterov;
  return as_launch(
      parts_.outer->apply_outer,
      kernels::OuterUpdate{
          .nesterov = nesterov,
          .rate = static_cast<float>(layout.outer_rate),
          .momentum = static_cast<float>(layout.outer_momentum),
          .mix = layout.outer_overlap > 0 ? static_cast<float>(layout.outer_mix) : 0.0F},
      kernels::OuterState{.message = floats(at(op, Role::input)),
                          .last = last,
                          .velocity = nesterov ? last + bucket.owned : nullptr,
                          .master = master,
                          .weight = weight},
      elements);
}

}  // namespace real
