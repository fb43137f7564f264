// The first and the last operators of a model: tables and loss.
#include "real/cuda/prepare.hpp"
#include "sim/base/check.hpp"

namespace real {

using sim::Function;
using sim::Role;

Launch Preparation::table_forward(const BoundOp& op) {
  const kernels::TableShape shape =
      shapes_.table(op, op.operand(Role::weight), shapes_.activations());
  const std::byte* table = at(op, Role::weight);
  std::byte* output = at(op, Role::output);
  if (op.model_op->function == Function::lookup) {
    const kernels::TokenIds ids = shapes_.ids(op, parts_.memory.ids, 0);
    return
        [=](cudaStream_t stream) { kernels::embedding_forward(shape, ids, table, output, stream); };
  }
  const kernels::Positions positions = shapes_.positions(op, op.operand(Role::output).bytes);
  const std::byte* input = op.operand(Role::input).exists() ? at(op, Role::input) : output;
  return [=](cudaStream_t stream) {
    kernels::add_table_forward(shape, positions, table, input, output, stream);
  };
}

Launch Preparation::table_backward(const BoundOp& op) {
  const kernels::TableShape shape =
      shapes_.table(op, op.operand(Role::weight_gradient), shapes_.gradients());
  const Operand& gradient = op.operand(Role::gradient);
  const kernels::TableGradient operands{.gradient = at(gradient),
                                        .table_gradient = at(op, Role::weight_gradient),
                                        .gradient_dtype = shapes_.gradients(),
                                        .accumulate = op.accumulate};
  if (op.model_op->function == Function::lookup) {
    const kernels::TokenIds ids = shapes_.ids(op, parts_.memory.ids, 0);
    const kernels::Workspace space = workspace(op);
    return [=](cudaStream_t stream) {
      kernels::embedding_backward(shape, ids, operands, space, stream);
    };
  }
  const kernels::Positions positions = shapes_.positions(op, gradient.bytes);
  // The gradient of a sum is handed on as it is.
  std::byte* handed =
      op.operand(Role::input_gradient).exists() ? at(op, Role::input_gradient) : at(gradient);
  const std::byte* from = at(gradient);
  const std::int64_t bytes = gradient.bytes;
  return [=](cudaStream_t stream) {
    kernels::add_table_backward(shape, positions, operands, stream);
    copy_on_device(handed, from, bytes, stream);
  };
}

Launch Preparation::loss_maximum(const BoundOp& op) {
  const kernels::LossShape shape = shapes_.loss(op);
  const std::int64_t tokens = shapes_.tokens();
  const std::byte* logits = at(op, op.operand(Role::input).exists() ? Role::input : Role::saved);
  auto* maximum = reinterpret_cast<float*>(at(op, Role::maximum));
  return
      [=](cudaStream_t stream) { kernels::loss_maximum(shape, tokens, logits, maximum, stream); };
}

Launch Preparation::loss_exponentials(const BoundOp& op) {
  return exponentials(op, reinterpret_cast<const float*>(at(op, Role::maximum)));
}

// One rank has the whole vocabulary: nothing is reduced between the two, and one kernel does both.
Launch Preparation::loss_forward(const BoundOp& op) {
  return exponentials(op, nullptr);
}

Launch Preparation::exponentials(const BoundOp& op, const float* maximum) {
  const kernels::LossShape shape = shapes_.loss(op);
  const kernels::TokenIds targets = shapes_.ids(op, parts_.memory.ids, 1);
  const kernels::LossExponentials operands{
      .logits = at(op, op.operand(Role::input).exists() ? Role::input : Role::saved),
      .maximum = maximum,
      .exponentials = reinterpret_cast<float*>(at(op, Role::saved)),
      .target_logit = reinterpret_cast<float*>(at(op, Role::target_logit)),
      .exponential_sum = reinterpret_cast<float*>(at(op, Role::exponential_sum))};
  return [=](cudaStream_t stream) { kernels::loss_exponentials(shape, targets, operands, stream); };
}

// Here the sums over all slices of the vocabulary have arrived: the loss is read as well. A step's
// gradient is that of the mean over its micro-batches; data-parallel replicas are averaged where
// gradients are reduced.
Launch Preparation::loss_backward(const BoundOp& op) {
  const std::int64_t tokens = shapes_.tokens();
  const auto sums = reinterpret_cast<const float*>(at(op, Role::exponential_sum));
  const double mean = 1.0 / static_cast<double>(tokens);
  const kernels::LossFinish finish{
      .target_logit = reinterpret_cast<const float*>(at(op, Role::target_logit)),
      .exponential_sum = sums,
      .exponentials = nullptr,
      .weight = mean,
      .loss = parts_.memory.loss};
  const kernels::LossShape shape = shapes_.loss(op);
  const kernels::TokenIds targets = shapes_.ids(op, parts_.memory.ids, 1);
  const auto micro_batches = static_cast<double>(shapes_.layout().micro_batches());
  const kernels::LossGradient gradient{.saved = reinterpret_cast<const float*>(at(op, Role::saved)),
                                       .exponential_sum = sums,
                                       .logit_gradient = at(op, Role::input_gradient),
                                       .scale = static_cast<float>(mean / micro_batches)};
  return [=](cudaStream_t stream) {
    kernels::loss_finish(shape, tokens, finish, stream);
    kernels::loss_gradient(shape, targets, gradient, stream);
  };
}

}  // namespace real
