#include "real/host/model_ops.hpp"

#include "real/engine/operator_facts.hpp"
#include "real/host/kernels_elementwise.hpp"
#include "real/host/kernels_linear.hpp"
#include "sim/base/check.hpp"

namespace real {

using sim::Action;
using sim::Function;
using sim::Role;

namespace {

// A linear's matrix lies before its bias; those of experts one behind the other, without biases.
template <class T>
std::span<T> matrix_of(std::span<T> parameters, const LinearShape& shape, std::int64_t index) {
  const auto size = static_cast<std::size_t>(shape.in * shape.out);
  return parameters.subspan(static_cast<std::size_t>(index) * size, size);
}
template <class T>
std::span<T> bias_of(std::span<T> parameters, const LinearShape& shape) {
  return parameters.subspan(static_cast<std::size_t>(shape.in * shape.out));
}

// The rows that are multiplied by matrix `index` of `count`.
template <class T>
std::span<T> rows_of(std::span<T> all, std::int64_t count, std::int64_t index) {
  const std::size_t share = all.size() / static_cast<std::size_t>(count);
  return all.subspan(static_cast<std::size_t>(index) * share, share);
}

bool is_head_norm(const sim::ModelOp& op) {
  return op.split == sim::TensorSplit::inner && is_norm(op.function);
}

}  // namespace

ModelOps::ModelOps(const BoundProgram& program, Arena& arena, StepState& state)
    : program_{program},
      model_{*program.model},
      layout_{program.plan->layout},
      tensor_{program.plan->layout.tensor_parallel},
      tensor_rank_{program.at.tensor},
      arena_{arena},
      state_{state} {}

bool ModelOps::runs(Action action) {
  switch (action) {
    case Action::forward:
    case Action::backward:
    case Action::input_gradient:
    case Action::weight_gradient:
    case Action::bias_gradient:
    case Action::loss_maximum:
    case Action::loss_exponentials:
    case Action::choose:
    case Action::choose_backward:
    case Action::move_tokens:
    case Action::sort_tokens:
    case Action::add_product_gradient:
      return true;
    default:
      return false;
  }
}

void ModelOps::run(const BoundOp& op) {
  SIM_CHECK(op.model_op != nullptr, static_cast<int>(op.action));
  switch (op.action) {
    case Action::forward:
      return forward(op);
    case Action::backward:
      return backward(op);
    case Action::input_gradient:
      return linear_input_gradient_of(op);
    case Action::weight_gradient:
      return linear_weight_gradient_of(op);
    case Action::bias_gradient:
      return bias_gradient_of(op);
    case Action::loss_maximum:
      return loss_maximum_of(op);
    case Action::loss_exponentials:
      return loss_exponentials_of(op);
    case Action::choose:
      return choose_of(op);
    case Action::choose_backward:
      return choose_backward_of(op);
    case Action::move_tokens:
      return move_tokens_of(op);
    case Action::sort_tokens:
      return sort_tokens_of(op);
    case Action::add_product_gradient:
      return add(arena_.of(op, Role::input), arena_.of(op, Role::input_gradient));
    default:
      SIM_CHECK(false, static_cast<int>(op.action));
  }
}

void ModelOps::forward(const BoundOp& op) {
  const Function function = op.model_op->function;
  switch (function) {
    case Function::lookup:
    case Function::add_table:
      return table_forward_of(op);
    case Function::linear:
    case Function::route:
      return linear_forward_of(op);
    case Function::rotary:
      return rotate(op, in_place(op, Role::input, Role::output), false);
    case Function::attention:
      return attention_forward_of(op);
    case Function::add_residual:
      return sum(arena_.of(op, Role::input), arena_.of(op, Role::residual),
                 arena_.of(op, Role::output));
    case Function::cross_entropy:
      return loss_forward_of(op);
    default:
      if (is_norm(function)) return norm_forward_of(op);
      if (is_activation(function))
        return op.model_op->experts > 0 ? weighed_forward_of(op) : activation_forward_of(op);
  }
  SIM_CHECK(false, op.model_op->name, static_cast<int>(function));
}

void ModelOps::backward(const BoundOp& op) {
  const Function function = op.model_op->function;
  switch (function) {
    case Function::lookup:
    case Function::add_table:
      return table_backward_of(op);
    case Function::rotary:
      return rotate(op, in_place(op, Role::gradient, Role::input_gradient), true);
    case Function::attention:
      return attention_backward_of(op);
    case Function::add_residual:
      return sum(arena_.of(op, Role::gradient), arena_.of(op, Role::residual_gradient),
                 arena_.of(op, Role::input_gradient));
    case Function::cross_entropy:
      return loss_backward_of(op);
    default:
      if (is_norm(function)) return norm_backward_of(op);
      if (is_activation(function))
        return op.model_op->experts > 0 ? weighed_backward_of(op) : activation_backward_of(op);
  }
  SIM_CHECK(false, op.model_op->name, static_cast<int>(function));
}

std::span<float> ModelOps::in_place(const BoundOp& op, Role from, Role to) {
  const Operand& source = op.operand(from);
  const Operand& target = op.operand(to).exists() ? op.operand(to) : source;
  if (source.exists() && source.offset != target.offset) {
    copy(arena_.floats(source), arena_.floats(target));
  }
  return arena_.floats(target);
}

// Where the input does not live on by itself, a copy of it is what the operator saves.
void ModelOps::keep_input(const BoundOp& op) {
  if (!op.operand(Role::saved).exists()) return;
  copy(arena_.of(op, Role::input), arena_.of(op, Role::saved));
}

std::span<const float> ModelOps::kept_input(const BoundOp& op) {
  return arena_.of(op, op.operand(Role::input).exists() ? Role::input : Role::saved);
}

void ModelOps::linear_forward_of(const BoundOp& op) {
  const LinearShape shape{.tokens = op.kernel->m, .in = op.kernel->k, .out = op.kernel->n};
  const std::span<const float> weight = arena_.of(op, Role::weight);
  // The outputs of a row-split product are summed over the tensor group: one rank adds the bias.
  const bool adds_bias =
      tensor_ == 1 || op.model_op->split != sim::TensorSplit::row || tensor_rank_ == 0;
  const std::span<const float> bias =
      adds_bias && op.model_op->experts == 0 ? bias_of(weight, shape) : std::span<const float>{};
  const std::int64_t count = op.kernel->batch;
  for (std::int64_t i = 0; i < count; ++i)
    linear_forward(shape, rows_of(arena_.of(op, Role::input), count, i),
                   matrix_of(weight, shape, i), bias,
                   rows_of(arena_.of(op, Role::output), count, i));
  keep_input(op);
}

void ModelOps::linear_input_gradient_of(const BoundOp& op) {
  const LinearShape shape{.tokens = op.kernel->m, .in = op.kernel->n, .out = op.kernel->k};
  const std::span<const float> weight = arena_.of(op, Role::weight);
  const std::int64_t count = op.kernel->batch;
  for (std::int64_t i = 0; i < count; ++i)
    linear_input_gradient(shape, rows_of(arena_.of(op, Role::gradient), count, i),
                          matrix_of(weight, shape, i),
                          rows_of(arena_.of(op, Role::input_gradient), count, i));
}

void ModelOps::linear_weight_gradient_of(const BoundOp& op) {
  const LinearShape shape{.tokens = op.kernel->k, .in = op.kernel->n, .out = op.kernel->m};
  const std::int64_t count = op.kernel->batch;
  const GradientSum sum{.scale = gradient_scale(program_, *op.model_op),
                        .accumulate = op.accumulate};
  for (std::int64_t i = 0; i < count; ++i)
    linear_weight_gradient(shape, rows_of(kept_input(op), count, i),
                           rows_of(arena_.of(op, Role::gradient), count, i),
                           matrix_of(arena_.of(op, Role::weight_gradient), shape, i), sum);
}

void ModelOps::bias_gradient_of(const BoundOp& op) {
  const std::span<float> all = arena_.of(op, Role::weight_gradient);
  const bool row_split = op.model_op->split == sim::TensorSplit::row;
  const std::int64_t in = op.model_op->in_features / (row_split ? tensor_ : 1);
  const auto out = static_cast<std::size_t>(static_cast<std::int64_t>(all.size()) / (in + 1));
  SIM_CHECK(out * static_cast<std::size_t>(in + 1) == all.size(), op.model_op->name, all.size(),
            in);
  bias_gradient(arena_.of(op, Role::gradient), all.last(out), op.accumulate);
}

HeadNormShape ModelOps::head_norm_shape(const BoundOp& op, std::size_t elements) const {
  HeadNormShape shape{.tokens = 0,
                      .heads = model_.attention.heads / tensor_,
                      .kv_heads = model_.attention.kv_heads / tensor_,
                      .head_dim = model_.attention.head_dim,
                      .function = op.model_op->function};
  shape.tokens =
      static_cast<std::int64_t>(elements) / ((shape.heads + 2 * shape.kv_heads) * shape.head_dim);
  return shape;
}

void ModelOps::norm_forward_of(const BoundOp& op) {
  const std::span<const float> parameters = arena_.of(op, Role::weight);
  if (is_head_norm(*op.model_op)) {
    const std::span<float> qkv = in_place(op, Role::input, Role::output);
    return head_norm_forward(head_norm_shape(op, qkv.size()), parameters, qkv,
                             arena_.maybe(op, Role::saved));
  }
  const std::span<const float> input = arena_.of(op, Role::input);
  const std::int64_t features = op.model_op->in_features;
  norm_forward({.rows = static_cast<std::int64_t>(input.size()) / features,
                .features = features,
                .function = op.model_op->function},
               input, parameters, arena_.of(op, Role::output));
  keep_input(op);
}

void ModelOps::norm_backward_of(const BoundOp& op) {
  const std::span<const float> parameters = arena_.of(op, Role::weight);
  const std::span<float> parameter_gradients = arena_.of(op, Role::weight_gradient);
  if (is_head_norm(*op.model_op)) {
    const std::span<float> gradient = in_place(op, Role::gradient, Role::input_gradient);
    return head_norm_backward(head_norm_shape(op, gradient.size()), arena_.of(op, Role::saved),
                              parameters, gradient, parameter_gradients, op.accumulate);
  }
  const std::span<const float> input = kept_input(op);
  const std::int64_t features = op.model_op->in_features;
  norm_backward({.rows = static_cast<std::int64_t>(input.size()) / features,
                 .features = features,
                 .function = op.model_op->function},
                {.x = input,
                 .parameters = parameters,
                 .dy = arena_.of(op, Role::gradient),
                 .residual = arena_.maybe(op, Role::residual_gradient),
                 .dx = arena_.of(op, Role::input_gradient),
                 .parameter_gradients = parameter_gradients,
                 .accumulate = op.accumulate});
}

void ModelOps::rotate(const BoundOp& /*op*/, std::span<float> rows, bool inverse) const {
  const sim::AttentionShape& attention = model_.attention;
  const std::int64_t heads = attention.heads / tensor_;
  const std::int64_t kv_heads = attention.kv_heads / tensor_;
  const std::int64_t width = (heads + 2 * kv_heads) * attention.head_dim;
  rotary({.tokens = static_cast<std::int64_t>(rows.size()) / width,
          .sequence = layout_.sequence_length,
          .heads = heads + kv_heads,
          .head_dim = attention.head_dim,
          .width = width},
         rows, inverse);
}

AttentionSize ModelOps::attention_size(const BoundOp& op) const {
  return {.batch = op.kernel->batch,
          .sequence = op.kernel->m,
          .heads = op.kernel->heads,
          .kv_heads = op.kernel->kv_heads,
          .head_dim = op.kernel->k,
          .causal = op.kernel->causal};
}

void ModelOps::attention_forward_of(const BoundOp& op) {
  const AttentionSize size = attention_size(op);
  const std::span<const float> qkv = arena_.of(op, Role::input);
  const std::span<float> out = arena_.maybe(op, Role::output);
  const std::span<float> saved = arena_.maybe(op, Role::saved);
  if (is_flash(op.kernel->attention)) {
    SIM_CHECK(saved.empty() || static_cast<std::int64_t>(saved.size()) == size.log_sums(),
              saved.size(), size.log_sums());
    return flash_forward(size, qkv, out, saved);
  }
  SIM_CHECK(saved.empty() || static_cast<std::int64_t>(saved.size()) == size.probabilities(),
            saved.size(), size.probabilities());
  unfused_forward(size, qkv, out, saved);
}

void ModelOps::attention_backward_of(const BoundOp& op) {
  const AttentionSize size = attention_size(op);
  const std::span<const float> qkv = arena_.of(op, Role::input);
  const std::span<const float> saved = arena_.of(op, Role::saved);
  const std::span<const float> gradient = arena_.of(op, Role::gradient);
  const std::span<float> to = arena_.of(op, Role::input_gradient);
  if (is_flash(op.kernel->attention)) {
    return flash_backward(size, qkv, arena_.of(op, Role::saved_output), saved, gradient, to);
  }
  unfused_backward(size, qkv, saved, gradient, to);
}

void ModelOps::activation_forward_of(const BoundOp& op) {
  const std::span<float> out = arena_.of(op, Role::output);
  const bool inner = op.model_op->split == sim::TensorSplit::inner;
  activation_forward(op.model_op->function, op.model_op->out_features / (inner ? tensor_ : 1),
                     arena_.of(op, Role::input), out);
  keep_input(op);
}

void ModelOps::activation_backward_of(const BoundOp& op) {
  const bool inner = op.model_op->split == sim::TensorSplit::inner;
  const std::span<const float> kept =
      op.operand(Role::saved_output).exists() ? arena_.of(op, Role::saved_output) : kept_input(op);
  activation_backward(op.model_op->function, op.model_op->out_features / (inner ? tensor_ : 1),
                      kept, arena_.of(op, Role::gradient), arena_.of(op, Role::input_gradient));
}

}  // namespace real
