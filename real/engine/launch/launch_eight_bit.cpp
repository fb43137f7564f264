// Products in 8 bits, and the maxima from which delayed scales follow.
#include "real/engine/launch/kernel_launches.hpp"
#include "sim/base/check.hpp"

namespace real {

using kernels::as_launch;
using kernels::Launch;
using sim::Role;

Launch KernelLaunches::encode(const BoundOp& op) {
  return shapes_.layout().trains_adapters() ? dequantize(op) : coded_.encode(op);
}

Launch KernelLaunches::coded_product(const BoundOp& op, const GemmShape& shape,
                                     GemmOperands operands) {
  SIM_CHECK(op.kernel->batch == 1, op.model_op->name, op.kernel->batch);
  CodedCasts::Pair codes = coded_.operands_of(op);
  operands.first = codes.first.codes;
  operands.second = codes.second.codes;
  operands.first_scales = codes.first.scales;
  operands.second_scales = codes.second.scales;
  Launch made = all_in_turn({std::move(codes.first.cast), std::move(codes.second.cast),
                             parts_.products.prepare(shape, operands, parts_.stream)});
  const bool keeps = op.action == sim::Action::forward && !coded_.keeps_codes(op);
  return keeps ? keep_input(op, std::move(made)) : made;
}

Launch KernelLaunches::maxima(const BoundOp& op) {
  const CodedMemory& memory = parts_.memory.coded;
  const kernels::DelayedScales& state =
      op.pass == sim::Pass::forward ? memory.forward : memory.backward;
  const bool collects = op.action == sim::Action::collect_maxima;
  const Operand& all = op.operand(collects ? Role::output : Role::input);
  SIM_CHECK(all.bytes == state.tensors * static_cast<std::int64_t>(sizeof(float)), all.bytes,
            state.tensors);
  if (collects) return as_launch(kernels_.collect_maxima, state, floats(at(all)));
  return as_launch(kernels_.update_scales, state, floats(at(all)));
}

}  // namespace real
