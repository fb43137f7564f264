// Tensors on the host (Layout::offload_optimizer, offload_parameters, offload_activations): copies
// there and back, and the update there.
#include <cmath>

#include "real/engine/launch/kernel_launches.hpp"

namespace real {

using kernels::as_launch;
using kernels::Launch;
using kernels::StreamHandle;
using sim::Action;
using sim::Role;

// Gradients to the host, the update there, and weights back; parameters and activations both ways.
Launch KernelLaunches::host_op(const BoundOp& op) {
  switch (op.action) {
    case Action::weights_from_host:
      return weights_from_host(op);
    case Action::gradients_to_host:
      return gradients_to_host(op);
    case Action::update_on_host:
      return update_on_host(op.subject,
                            shapes_.layout().offload_delay ? Turn::of_last_step : Turn::own);
    case Action::parameters_from_host:
      return copy_owned(op, shapes_.layout().activation_dtype);
    case Action::gradients_from_host:
      return copy_owned(op, shapes_.layout().gradient_dtype);
    default: {
      const Operand& to = op.operand(Role::output);
      return as_launch(kernels_.copy, at(to), at(op, Role::input), to.bytes);
    }
  }
}

// Between buffers that hold what the rank owns of a bucket, alone or with the rest.
Launch KernelLaunches::copy_owned(const BoundOp& op, sim::DType dtype) {
  const BoundBucket& bucket = parts_.program.buckets.at(op.subject);
  return as_launch(kernels_.copy, owned_part(bucket, op.operand(Role::output), dtype),
                   owned_part(bucket, op.operand(Role::input), dtype),
                   bucket.owned * sim::bytes_of(dtype));
}

// With a delay, only what an update has made since the last copy: not if this step's gradients were
// not finite, for then it runs again.
Launch KernelLaunches::weights_from_host(const BoundOp& op) {
  const sim::Layout& layout = shapes_.layout();
  const BoundBucket& bucket = parts_.program.buckets.at(op.subject);
  Launch back =
      as_launch(kernels_.copy, owned_part(bucket, bucket.weight, layout.activation_dtype),
                at(bucket.host_weight), bucket.owned * sim::bytes_of(layout.activation_dtype));
  if (!layout.offload_delay) return back;
  return [back, turns = parts_.turns, norm = parts_.memory.square_sum](StreamHandle stream) {
    if (turns->has_weights && std::isfinite(*norm)) back(stream);
  };
}

// Without masters the host's weights are the state: they are there from the first copy on. Before a
// delay begins the update follows.
Launch KernelLaunches::gradients_to_host(const BoundOp& op) {
  const sim::Layout& layout = shapes_.layout();
  const BoundBucket& bucket = parts_.program.buckets.at(op.subject);
  Launch gradients = copy_owned(op, layout.gradient_dtype);
  if (layout.offload_delay) {
    return [gradients, update = update_on_host(op.subject, Turn::own), turns = parts_.turns,
            norm = parts_.memory.square_sum](StreamHandle stream) {
      if (!std::isfinite(*norm)) return;
      gradients(stream);
      if (!turns->delays) update(stream);
    };
  }
  if (layout.master_weights || layout.offloads_parameters()) return gradients;
  return [gradients, copy = kernels_.copy, host_weight = at(bucket.host_weight),
          weight = owned_part(bucket, bucket.weight, layout.activation_dtype),
          bytes = bucket.owned * sim::bytes_of(layout.activation_dtype)](StreamHandle stream) {
    copy(host_weight, weight, bytes, stream);
    gradients(stream);
  };
}  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks): functions within a function own each other

// With the gradients of this step, or with a delay of the one before, if they wait.
Launch KernelLaunches::update_on_host(std::uint32_t index, Turn turn) {
  AdamPiece piece = adam_piece(index);
  Launch update = [settings = adam_settings(), piece, adam = kernels_.adam](StreamHandle stream) {
    if (piece.elements > 0) adam(settings, piece.state, piece.elements, piece.decay, stream);
  };
  if (turn == Turn::own) return update;
  piece.state.step = &parts_.turns->adam;
  piece.state.gate = nullptr;
  return [settings = adam_settings(), piece, adam = kernels_.adam,
          turns = parts_.turns](StreamHandle stream) {
    if (turns->pending && piece.elements > 0)
      adam(settings, piece.state, piece.elements, piece.decay, stream);
  };
}

}  // namespace real
