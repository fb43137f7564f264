// Linears that work on the first token of each sequence: the head of a classifier.
#include "real/engine/launch/kernel_launches.hpp"
#include "sim/base/check.hpp"

namespace real {

using kernels::Launch;
using kernels::StreamHandle;
using sim::Role;

// The plan keeps the rows that are read: they are the operand of the product, and later of the
// weight gradient.
Launch KernelLaunches::first_tokens_forward(const BoundOp& op) {
  const std::int64_t row = op.model_op->in_features * sim::bytes_of(shapes_.activations());
  const std::int64_t apart = shapes_.layout().sequence_length * row;
  const std::int64_t count = shapes_.rows(op);
  const Operand& kept = op.operand(Role::saved);
  SIM_CHECK(kept.exists() && kept.bytes == count * row, op.model_op->name, kept.bytes, row);
  return [=, copy = kernels_.copy, from = at(op, Role::input), to = at(kept)](StreamHandle stream) {
    for (std::int64_t i = 0; i < count; ++i)
      copy(to + i * row, from + i * apart, row, stream);
  };
}

// The product has left the rows one behind the other, at the start of the gradient of all tokens:
// the last is moved first, and what lies between them becomes zero.
Launch KernelLaunches::first_tokens_gradient(const BoundOp& op) {
  const std::int64_t row = op.model_op->in_features * sim::bytes_of(shapes_.activations());
  const std::int64_t apart = shapes_.layout().sequence_length * row;
  const std::int64_t count = shapes_.rows(op);
  const Operand& gradient = op.operand(Role::input_gradient);
  SIM_CHECK(gradient.bytes == count * apart, op.model_op->name, gradient.bytes, apart);
  return
      [=, copy = kernels_.copy, zero = kernels_.zero, start = at(gradient)](StreamHandle stream) {
        for (std::int64_t i = count; i-- > 0;) {
          copy(start + i * apart, start + i * row, row, stream);
          zero(start + i * apart + row, apart - row, stream);
        }
      };
}

}  // namespace real
