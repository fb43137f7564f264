// Latent attention: which scratch memory its operators share (real/engine/kernels/latent.hpp).
#include "real/engine/launch/kernel_launches.hpp"
#include "real/engine/model_sites.hpp"
#include "sim/base/check.hpp"

namespace real {

using kernels::as_launch;
using kernels::Launch;
using sim::Role;

Launch KernelLaunches::latent_heads(const BoundOp& op) {
  SIM_CHECK(parts_.latent != nullptr, op.model_op->name);
  const LatentMemory& memory = parts_.memory.latent;
  const kernels::LatentHeads shape = shapes_.latent_heads();
  if (op.action == sim::Action::backward)
    return as_launch(parts_.latent->latent_gradients, shape,
                     kernels::LatentGradients{.gradient = at(op, Role::gradient),
                                              .made = at(op, Role::input_gradient),
                                              .rotary_keys = memory.rotary_keys_gradient,
                                              .table = parts_.memory.rotary_table});
  return as_launch(parts_.latent->put_latent_heads, shape,
                   kernels::LatentInputs{.queries = at(op, Role::residual),
                                         .made = at(op, Role::input),
                                         .rotary_keys = memory.rotary_keys,
                                         .table = parts_.memory.rotary_table},
                   at(op, Role::output));
}

Launch KernelLaunches::latent_norm_forward(const BoundOp& op) {
  SIM_CHECK(parts_.latent != nullptr, op.model_op->name);
  std::byte* output = at(op, Role::output);
  Launch made = kernels::in_turn(
      as_launch(parts_.latent->split_rows, shapes_.latent_rows(), at(op, Role::input), output,
                parts_.memory.latent.rotary_keys),
      [shape = shapes_.norm(op), norm = kernels_.norm_forward, output, copy = kernels_.copy,
       saved = at(op, Role::saved), bytes = op.operand(Role::output).bytes,
       parameters = at(op, Role::weight)](kernels::StreamHandle stream) {
        if (saved != nullptr) copy(saved, output, bytes, stream);
        norm(shape, output, parameters, output, stream);
      });
  const Operand& saved = op.operand(Role::saved);
  SIM_CHECK(!saved.exists() || saved.bytes == op.operand(Role::output).bytes, op.model_op->name);
  return made;
}

Launch KernelLaunches::latent_norm_backward(const BoundOp& op, Launch norm) {
  const LatentMemory& memory = parts_.memory.latent;
  return kernels::in_turn(
      std::move(norm),
      as_launch(parts_.latent->join_rows, shapes_.latent_rows(), at(op, Role::input_gradient),
                memory.rotary_keys_gradient, memory.joined_gradient));
}

// The gradient of a linear's output: that of the narrow product has the part of the rotary keys.
std::byte* KernelLaunches::gradient_of(const BoundOp& op) const {
  return shapes_.makes_rotary_keys(op)
             ? reinterpret_cast<std::byte*>(parts_.memory.latent.joined_gradient)
             : at(op, Role::gradient);
}

}  // namespace real
