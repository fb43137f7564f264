// The first and the last operators of a model: tables and loss.
#include "real/engine/launch/kernel_launches.hpp"
#include "sim/base/check.hpp"

namespace real {

using kernels::as_launch;
using kernels::Launch;
using kernels::StreamHandle;
using sim::Function;
using sim::Role;

namespace {

// The exponentials may take the place of the logits: then there is no input.
Role logits_of(const BoundOp& op) {
  return op.operand(Role::input).exists() ? Role::input : Role::saved;
}

}  // namespace

Launch KernelLaunches::table_forward(const BoundOp& op) {
  const kernels::TableShape shape =
      shapes_.table(op, op.operand(Role::weight), shapes_.activations());
  const std::byte* table = at(op, Role::weight);
  std::byte* output = at(op, Role::output);
  if (op.model_op->function == Function::lookup)
    return as_launch(kernels_.embedding_forward, shape, shapes_.ids(op, parts_.memory.ids, 0),
                     table, output);
  const std::byte* input = op.operand(Role::input).exists() ? at(op, Role::input) : output;
  return as_launch(kernels_.add_table_forward, shape,
                   shapes_.positions(op, op.operand(Role::output).bytes), table, input, output);
}

Launch KernelLaunches::table_backward(const BoundOp& op) {
  const kernels::TableShape shape =
      shapes_.table(op, op.operand(Role::weight_gradient), op.gradient_dtype);
  const Operand& gradient = op.operand(Role::gradient);
  const kernels::TableGradient operands{.gradient = at(gradient),
                                        .table_gradient = at(op, Role::weight_gradient),
                                        .gradient_dtype = op.gradient_dtype,
                                        .accumulate = op.accumulate};
  if (op.model_op->function == Function::lookup)
    return as_launch(kernels_.embedding_backward, shape, shapes_.ids(op, parts_.memory.ids, 0),
                     operands, workspace(op));
  const kernels::Positions positions = shapes_.positions(op, gradient.bytes);
  // The gradient of a sum is handed on as it is.
  std::byte* handed =
      op.operand(Role::input_gradient).exists() ? at(op, Role::input_gradient) : at(gradient);
  return [=, add = kernels_.add_table_backward, copy = kernels_.copy,
          bytes = gradient.bytes](StreamHandle stream) {
    add(shape, positions, operands, stream);
    copy(handed, operands.gradient, bytes, stream);
  };
}

Launch KernelLaunches::loss_maximum(const BoundOp& op) {
  return as_launch(kernels_.loss_maximum, shapes_.loss(op), shapes_.rows(op), at(op, logits_of(op)),
                   reinterpret_cast<float*>(at(op, Role::maximum)));
}

Launch KernelLaunches::loss_exponentials(const BoundOp& op) {
  return exponentials(op, reinterpret_cast<const float*>(at(op, Role::maximum)));
}

// One rank has the whole vocabulary: nothing is reduced between the two, and one kernel does both.
Launch KernelLaunches::loss_forward(const BoundOp& op) {
  return exponentials(op, nullptr);
}

Launch KernelLaunches::exponentials(const BoundOp& op, const float* maximum) {
  const kernels::LossExponentials operands{
      .logits = at(op, logits_of(op)),
      .maximum = maximum,
      .exponentials = reinterpret_cast<float*>(at(op, Role::saved)),
      .target_logit = reinterpret_cast<float*>(at(op, Role::target_logit)),
      .exponential_sum = reinterpret_cast<float*>(at(op, Role::exponential_sum))};
  return as_launch(kernels_.loss_exponentials, shapes_.loss(op), targets_of(op), operands);
}

// The next token of each, or the label of each sequence.
kernels::TokenIds KernelLaunches::targets_of(const BoundOp& op) const {
  return op.model_op->once_per_sequence ? shapes_.labels(op, parts_.memory.ids)
                                        : shapes_.ids(op, parts_.memory.ids, 1);
}

// Here the sums over all slices of the vocabulary have arrived: the loss is read as well. A step's
// gradient is that of the mean over its micro-batches; data-parallel replicas are averaged where
// gradients are reduced.
Launch KernelLaunches::loss_backward(const BoundOp& op) {
  const std::int64_t rows = shapes_.rows(op);
  const auto sums = reinterpret_cast<const float*>(at(op, Role::exponential_sum));
  const kernels::LossFinish finish{
      .target_logit = reinterpret_cast<const float*>(at(op, Role::target_logit)),
      .exponential_sum = sums,
      .exponentials = nullptr,
      .parts = static_cast<double>(rows),
      .loss = parts_.memory.loss};
  const kernels::LossShape shape = shapes_.loss(op);
  const sim::Layout& layout = shapes_.layout();
  const double micro_batches =
      static_cast<double>(layout.step_batches()) / layout.data_parallel;  // of a replica, mean
  const double scale = 1.0 / (micro_batches * static_cast<double>(rows));
  const kernels::LossGradient gradient{
      .saved = reinterpret_cast<const float*>(at(op, Role::saved)),
      .exponential_sum = sums,
      .logit_gradient = at(op, Role::input_gradient),
      .scale = static_cast<float>(scale),
      .logits = at(op, Role::input),
      .maximum = reinterpret_cast<const float*>(at(op, Role::maximum)),
      .target_logit = finish.target_logit};
  return kernels::in_turn(as_launch(kernels_.loss_finish, shape, rows, finish),
                          as_launch(kernels_.loss_gradient, shape, targets_of(op), gradient));
}

}  // namespace real
