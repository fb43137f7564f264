// Meetings of ranks that train apart.
#include "real/engine/launch/kernel_launches.hpp"
#include "sim/base/check.hpp"
#include "sim/plan/outer_message.hpp"

namespace real {

using kernels::as_launch;
using kernels::Launch;
using sim::Action;
using sim::Role;

namespace {

kernels::OuterPieces pieces_of(const sim::Layout& layout, const BoundBucket& bucket,
                               std::int64_t elements) {
  const sim::OuterMessage message = sim::message_of(layout, bucket.owned);
  return {.how = layout.outer_quantization,
          .elements = elements,
          .part = message.part,
          .count = message.pieces};
}

}  // namespace

Launch KernelLaunches::outer_op(const BoundOp& op) {
  SIM_CHECK(parts_.outer != nullptr, static_cast<int>(op.action));
  const BoundBucket& bucket = parts_.program.buckets.at(op.subject);
  switch (op.action) {
    case Action::last_from_host:
    case Action::outer_from_host: {
      const Operand& to = op.operand(Role::output);
      return as_launch(kernels_.copy, at(to), at(bucket.outer), to.bytes);
    }
    case Action::outer_to_host: {
      const Operand& from = op.operand(Role::input);
      return as_launch(kernels_.copy, at(bucket.outer), at(from), from.bytes);
    }
    case Action::mean_outer:
      return as_launch(parts_.outer->mean_outer,
                       pieces_of(shapes_.layout(), bucket, owned_real(bucket)), at(op, Role::input),
                       at(op, Role::output));
    case Action::outer_gradient:
      return outer_gradient(op);
    default:
      return apply_outer(op);
  }
}

Launch KernelLaunches::outer_gradient(const BoundOp& op) {
  const sim::Layout& layout = shapes_.layout();
  const BoundBucket& bucket = parts_.program.buckets.at(op.subject);
  const float* own = layout.master_weights
                         ? floats(at(bucket.optimizer))
                         : floats(owned_part(bucket, bucket.weight, layout.activation_dtype));
  const float* last = floats(at(op, Role::state));
  const std::int64_t elements = owned_real(bucket);
  if (layout.outer_quantization == sim::OuterQuantization::none)
    return as_launch(parts_.outer->outer_gradient, elements, own, last,
                     floats(at(op, Role::output)));
  return as_launch(parts_.outer->quantized_outer_gradient, pieces_of(layout, bucket, elements), own,
                   last, at(op, Role::output));
}

Launch KernelLaunches::apply_outer(const BoundOp& op) {
  const sim::Layout& layout = shapes_.layout();
  const BoundBucket& bucket = parts_.program.buckets.at(op.subject);
  const std::int64_t elements = owned_real(bucket);
  const bool nesterov = layout.outer == sim::OuterOptimizer::nesterov;
  float* last = floats(at(op, Role::state));
  std::byte* message = at(op, Role::input);
  return as_launch(
      parts_.outer->apply_outer,
      kernels::OuterUpdate{
          .nesterov = nesterov,
          .rate = static_cast<float>(layout.outer_rate),
          .momentum = static_cast<float>(layout.outer_momentum),
          .mix = layout.outer_overlap > 0 ? static_cast<float>(layout.outer_mix) : 0.0F,
          .pieces = pieces_of(layout, bucket, elements)},
      kernels::OuterState{
          .message = floats(message),
          .pieces = message,
          .last = last,
          .velocity = nesterov ? last + bucket.owned : nullptr,
          .master = layout.master_weights ? floats(at(bucket.optimizer)) : nullptr,
          .weight = floats(owned_part(bucket, bucket.weight, layout.activation_dtype))},
      elements);
}

}  // namespace real
