// Kernels of low-rank adapters (real/engine/kernels/adapters.hpp). The first factor of a site,
// [rank, in], lies before the second, [out, rank].
#include "real/engine/kernels/adapters.hpp"
#include "real/engine/launch/kernel_launches.hpp"
#include "sim/base/check.hpp"

namespace real {

using kernels::as_launch;
using kernels::Launch;
using sim::Role;

Launch KernelLaunches::adapter(const BoundOp& op) {
  if (op.pass == sim::Pass::backward) return adapter_backward(op);
  switch (op.turn) {
    case adapter_down:
      return adapter_input(op);
    case adapter_up:
      return adapter_product(op, GemmPass::forward, Role::input, Role::output);
    case adapter_scale:
      return [](kernels::StreamHandle) {};  // by 1
    default:
      SIM_CHECK(op.turn == adapter_add, op.model_op->name, op.turn);
      return add(op, Role::output, Role::input, Role::output);
  }
}

// Frozen weights in 4 bits are turned into the format of products for each use. What lies here are
// the values of the 4 bits.
Launch KernelLaunches::dequantize(const BoundOp& op) {
  const Operand& to = op.operand(Role::encoded_weight);
  SIM_CHECK(shapes_.layout().frozen_format == sim::FrozenFormat::nf4, op.model_op->name);
  SIM_CHECK(to.bytes <= op.operand(Role::weight).bytes, op.model_op->name, to.bytes);
  return as_launch(kernels_.copy, at(to), at(op, Role::weight), to.bytes);
}

// The product of the first factor is kept for the gradient of the second.
Launch KernelLaunches::adapter_input(const BoundOp& op) {
  Launch made = adapter_product(op, GemmPass::forward, Role::input, Role::output);
  const Operand& narrow = op.operand(Role::output);
  if (!op.operand(Role::saved).exists()) return made;
  SIM_CHECK(op.operand(Role::saved).bytes == narrow.bytes, op.model_op->name, narrow.bytes);
  return kernels::in_turn(std::move(made), as_launch(kernels_.copy, at(op, Role::saved),
                                                     at(op, Role::output), narrow.bytes));
}

Launch KernelLaunches::adapter_backward(const BoundOp& op) {
  switch (op.turn) {
    case adapter_scale_gradient:  // by 1
      return as_launch(kernels_.copy, at(op, Role::output), at(op, Role::gradient),
                       op.operand(Role::output).bytes);
    case adapter_up_gradient:
    case adapter_down_gradient:
      return adapter_product(op, GemmPass::input_gradient, Role::gradient, Role::output);
    case adapter_up_weight:
      return adapter_product(op, GemmPass::weight_gradient, Role::saved, Role::weight_gradient);
    case adapter_down_weight:
      return adapter_product(op, GemmPass::weight_gradient, Role::input, Role::weight_gradient);
    default:
      SIM_CHECK(op.turn == adapter_add_gradient, op.model_op->name, op.turn);
      return add(op, Role::input_gradient, Role::input, Role::input_gradient);
  }
}

Launch KernelLaunches::adapter_product(const BoundOp& op, GemmPass pass, Role from, Role to) {
  const sim::Kernel& kernel = *op.kernel;
  const bool of_weights = pass == GemmPass::weight_gradient;
  GemmShape shape{.pass = pass, .dtype = shapes_.activations(), .output = shapes_.activations()};
  if (pass == GemmPass::forward) {
    shape.tokens = kernel.m, shape.in = kernel.k, shape.out = kernel.n;
  } else if (!of_weights) {
    shape.tokens = kernel.m, shape.in = kernel.n, shape.out = kernel.k;
  } else {
    shape.tokens = kernel.k, shape.in = kernel.n, shape.out = kernel.m;
    shape.output = shapes_.gradients();
    shape.accumulate = op.accumulate;
  }
  const bool down = op.pass == sim::Pass::backward
                        ? op.turn == adapter_down_gradient || op.turn == adapter_down_weight
                        : op.turn == adapter_down;
  const std::int64_t size = sim::bytes_of(of_weights ? shapes_.gradients() : shapes_.activations());
  const std::int64_t first = shapes_.layout().lora_rank * op.model_op->in_features * size;
  std::byte* factor =
      at(op, of_weights ? Role::weight_gradient : Role::weight) + (down ? 0 : first);
  const GemmOperands operands{.first = at(op, of_weights ? Role::gradient : from),
                              .second = of_weights ? at(op, from) : factor,
                              .result = of_weights ? factor : at(op, to)};
  return parts_.products.prepare(shape, operands, parts_.stream);
}

}  // namespace real
