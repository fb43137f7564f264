// Operators of the model's layers.
#include "real/engine/launch/kernel_launches.hpp"
#include "sim/base/check.hpp"
#include "sim/plan/sharding/sharding.hpp"

namespace real {

using kernels::as_launch;
using kernels::Launch;
using kernels::StreamHandle;
using sim::Action;
using sim::Function;
using sim::Role;

namespace {

Role kept_input_of(const BoundOp& op) {
  return op.operand(Role::input).exists() ? Role::input : Role::saved;
}

// The operand of an operator that may work in place.
const Operand& first_of(const BoundOp& op, Role role, Role otherwise) {
  return op.operand(op.operand(role).exists() ? role : otherwise);
}

}  // namespace

Launch KernelLaunches::launch_of(const BoundOp& op) {
  SIM_CHECK(op.collective == nullptr && op.transfer == nullptr, static_cast<int>(op.action));
  if (op.model_op != nullptr) return model_op(op);
  return state_op(op);
}

Launch KernelLaunches::keep_input(const BoundOp& op, Launch launch) {
  if (!op.operand(Role::saved).exists() || !op.operand(Role::input).exists()) return launch;
  std::byte* to = at(op, Role::saved);
  const std::byte* from = at(op, Role::input);
  // Eager kernels keep more, or other tensors beside the input.
  const std::int64_t bytes = op.operand(Role::input).bytes;
  if (op.operand(Role::saved).bytes < bytes) return launch;
  return [=, copy = kernels_.copy, launch = std::move(launch)](StreamHandle stream) {
    copy(to, from, bytes, stream);  // first: the kernel may work in place
    launch(stream);
  };
}

Launch KernelLaunches::model_op(const BoundOp& op) {
  if (is_routed(op) && op.model_op->function != Function::linear) return routed_op(op);
  switch (op.action) {
    case Action::forward:
      return forward(op);
    case Action::backward:
      return backward(op);
    case Action::input_gradient:
    case Action::weight_gradient:
      return linear_gradient(op);
    case Action::bias_gradient:
      return bias_gradient(op);
    case Action::loss_maximum:
      return loss_maximum(op);
    case Action::loss_exponentials:
      return loss_exponentials(op);
    case Action::choose:
      return choose(op, false);
    case Action::choose_backward:
      return choose(op, true);
    case Action::move_tokens:
      return move_tokens(op);
    case Action::sort_tokens:
      return sort_tokens(op);
    case Action::attend:
    case Action::merge_outputs:
    case Action::attend_backward:
    case Action::merge_gradients:
    case Action::order_for_exchange:
    case Action::order_behind_exchange:
      return context_op(op);
    case Action::adapt:
      return adapter(op);
    case Action::encode:
      return encode(op);
    case Action::join_output:
    case Action::spread_gradient:
      return shared_heads(op);
    case Action::add_product_gradient:
      return add(op, Role::input_gradient, Role::input, Role::input_gradient);
    case Action::add_weight_gradient:
      return add_weight_gradient(op);
    case Action::sum_products:    // each product has added its own
    case Action::reorder_tokens:  // they are in the order in which they are read
      return [](StreamHandle) {};
    default:
      SIM_CHECK(false, op.model_op->name, static_cast<int>(op.action));
  }
}

Launch KernelLaunches::forward(const BoundOp& op) {
  switch (function_of(*parts_.program.model, *op.model_op)) {
    case Function::lookup:
    case Function::add_table:
      return table_forward(op);
    case Function::linear:
    case Function::route:
      return linear_forward(op);
    case Function::layer_norm:
    case Function::layer_norm_no_bias:
    case Function::rms_norm:
      return norm_forward(op);
    case Function::rotary:
      return rotary(op, false);
    case Function::attention:
      return attention_forward(op);
    case Function::add_residual:
      return residual_forward(op);
    case Function::cross_entropy:
      return loss_forward(op);
    case Function::latent_rotary:
      return latent_heads(op);
    case Function::exchange:
    case Function::none:
      SIM_CHECK(false, op.model_op->name);
    default:
      if (op.model_op->experts > 0) return weighed_forward(op);
      return activation_forward(op);
  }
}

Launch KernelLaunches::backward(const BoundOp& op) {
  switch (function_of(*parts_.program.model, *op.model_op)) {
    case Function::lookup:
    case Function::add_table:
      return table_backward(op);
    case Function::layer_norm:
    case Function::layer_norm_no_bias:
    case Function::rms_norm:
      return norm_backward(op);
    case Function::rotary:
      return rotary(op, true);
    case Function::attention:
      return attention_backward(op);
    case Function::add_residual:
      return residual_backward(op);
    case Function::cross_entropy:
      return loss_backward(op);
    case Function::latent_rotary:
      return latent_heads(op);
    case Function::linear:  // two branches begin with its input
      return add(op, Role::gradient, Role::residual_gradient, Role::input_gradient);
    case Function::none:
    case Function::route:
    case Function::exchange:
      SIM_CHECK(false, op.model_op->name);
    default:
      if (op.model_op->experts > 0) return weighed_backward(op);
      return activation_backward(op);
  }
}

// Sums of tensors, of which one may be the result.
Launch KernelLaunches::add(const BoundOp& op, Role first, Role second, Role to) {
  const sim::DType dtype = shapes_.activations();
  const std::int64_t elements = op.operand(to).bytes / sim::bytes_of(dtype);
  return as_launch(kernels_.add, dtype, elements, at(op, first), at(op, second), at(op, to));
}

// Gradients that were written apart begin those of the step, or are added to them.
Launch KernelLaunches::add_weight_gradient(const BoundOp& op) {
  const sim::DType written = sim::written_gradient_dtype(*parts_.program.model, shapes_.layout());
  const kernels::Cast how{.from = written, .to = op.gradient_dtype, .accumulate = op.accumulate};
  // Behind those of the matrix there is room for those of a bias, which have a kernel of their own.
  const std::int64_t elements =
      shapes_.matrix_elements(op, op.operand(Role::input).bytes / sim::bytes_of(written));
  return as_launch(kernels_.cast, how, elements, at(op, Role::input),
                   at(op, Role::weight_gradient));
}

// The matrices of experts lie one behind the other, and so do the rows of each: a product for each.
Launch KernelLaunches::product(const BoundOp& op, const GemmShape& shape,
                               const GemmOperands& operands) {
  if (is_routed(op)) return routed_product(op, shape, operands);
  const std::int64_t count = op.kernel->batch;
  if (count == 1) return parts_.products.prepare(shape, operands, parts_.stream);
  const auto part = [count](const Operand& operand) { return operand.bytes / count; };
  const bool of_weights = shape.pass == GemmPass::weight_gradient;
  const Operand& first = op.operand(shape.pass == GemmPass::forward ? Role::input : Role::gradient);
  const Operand& second = op.operand(of_weights ? kept_input_of(op) : Role::weight);
  const Operand& result = op.operand(of_weights                        ? Role::weight_gradient
                                     : shape.pass == GemmPass::forward ? Role::output
                                                                       : Role::input_gradient);
  std::vector<Launch> made;
  for (std::int64_t i = 0; i < count; ++i) {
    GemmOperands own = operands;
    own.first = static_cast<const std::byte*>(operands.first) + i * part(first);
    own.second = static_cast<const std::byte*>(operands.second) + i * part(second);
    own.result = static_cast<std::byte*>(operands.result) + i * part(result);
    made.push_back(parts_.products.prepare(shape, own, parts_.stream));
  }
  return [made = std::move(made)](StreamHandle stream) {
    for (const Launch& launch : made)
      launch(stream);
  };
}

Launch KernelLaunches::linear_forward(const BoundOp& op) {
  GemmShape shape = shapes_.gemm(op);
  GemmOperands operands{
      .first = at(op, Role::input), .second = matrix_of(op), .result = at(op, Role::output)};
  if (op.model_op->once_per_sequence) operands.first = at(op, Role::saved);
  shape.bias = shape.bias && op.kernel->batch == 1;  // experts have none
  if (op.products > 1) return keep_input(op, product_of_several(op, shape, operands));
  if (shape.bias)
    operands.bias = at(op, Role::weight) + shape.in * shape.out * sim::bytes_of(shape.dtype);
  if (shape.coded.exist) return coded_product(op, shape, operands);
  if (op.model_op->once_per_sequence)
    return kernels::in_turn(first_tokens_forward(op), product(op, shape, operands));
  return keep_input(op, product(op, shape, operands));
}

// The last one adds the bias of all.
Launch KernelLaunches::product_of_several(const BoundOp& op, GemmShape shape,
                                          GemmOperands operands) {
  const bool adds_bias = shape.bias && op.first_feature + shape.out == shape.stride;
  shape.bias = false;
  operands.second = matrix_of(op) + op.first_feature * shape.in * sim::bytes_of(shape.dtype);
  operands.result = at(op, Role::output) + op.first_feature * sim::bytes_of(shape.output);
  Launch made = product(op, shape, operands);
  if (!adds_bias) return made;
  const std::byte* bias =
      at(op, Role::weight) + shape.in * shape.stride * sim::bytes_of(shape.dtype);
  return kernels::in_turn(std::move(made), as_launch(kernels_.add_bias, shape.dtype, shape.tokens,
                                                     shape.stride, bias, at(op, Role::output)));
}

Launch KernelLaunches::linear_gradient(const BoundOp& op) {
  const GemmShape shape = shapes_.gemm(op);
  const std::int64_t first = op.first_feature * sim::bytes_of(shape.dtype);
  GemmOperands operands{.first = gradient_of(op) + first};
  if (shape.pass == GemmPass::input_gradient) {
    operands.second = matrix_of(op) + first * shape.in;
    operands.result = at(op, Role::input_gradient);
  } else {
    operands.second = at(op, kept_input_of(op));
    operands.result =
        at(op, Role::weight_gradient) + op.first_feature * shape.in * sim::bytes_of(shape.output);
  }
  if (shape.coded.exist) return coded_product(op, shape, operands);
  if (op.model_op->once_per_sequence && shape.pass == GemmPass::input_gradient)
    return kernels::in_turn(product(op, shape, operands), first_tokens_gradient(op));
  return product(op, shape, operands);
}

Launch KernelLaunches::bias_gradient(const BoundOp& op) {
  const kernels::ColumnSum shape = shapes_.bias_sum(op);
  const Operand& all = op.operand(Role::weight_gradient);
  std::byte* to = at(all) + all.bytes - shape.width * sim::bytes_of(shape.gradient_dtype);
  return as_launch(kernels_.bias_gradient, shape, gradient_of(op), to, workspace(op));
}

Launch KernelLaunches::norm_forward(const BoundOp& op) {
  const std::byte* parameters = at(op, Role::weight);
  std::byte* output = at(op, Role::output);
  if (shapes_.is_head_norm(op)) {
    const std::byte* input = at(first_of(op, Role::input, Role::output));
    const kernels::HeadsShape shape = shapes_.heads(op.operand(Role::output).bytes);
    const kernels::HeadNorm norm{.function = op.model_op->function};
    return as_launch(kernels_.head_norm_forward, shape, norm, input, parameters, output,
                     at(op, Role::saved));
  }
  if (shapes_.passes_rotary_keys(op)) return latent_norm_forward(op);
  return keep_input(op, as_launch(kernels_.norm_forward, shapes_.norm(op), at(op, Role::input),
                                  parameters, output));
}

Launch KernelLaunches::norm_backward(const BoundOp& op) {
  const bool makes =
      op.operand(Role::input_gradient).exists() || op.operand(Role::weight_gradient).exists();
  // Frozen, in front of the first adapter: nobody reads a gradient.
  if (!makes && !shapes_.is_head_norm(op)) return [](StreamHandle) {};
  const kernels::Workspace space = workspace(op);
  if (shapes_.is_head_norm(op)) {
    const kernels::HeadNormBackward operands{
        .saved = at(op, Role::saved),
        .parameters = at(op, Role::weight),
        .gradient = at(op, Role::gradient),
        .input_gradient = at(first_of(op, Role::input_gradient, Role::gradient)),
        .parameter_gradient = at(op, Role::weight_gradient),
        .gradient_dtype = op.gradient_dtype,
        .accumulate = op.accumulate};
    const kernels::HeadsShape shape = shapes_.heads(op.operand(Role::gradient).bytes);
    const kernels::HeadNorm norm{.function = op.model_op->function};
    return as_launch(kernels_.head_norm_backward, shape, norm, operands, space);
  }
  const kernels::NormBackward operands{.input = at(op, kept_input_of(op)),
                                       .parameters = at(op, Role::weight),
                                       .gradient = at(op, Role::gradient),
                                       .residual_gradient = at(op, Role::residual_gradient),
                                       .input_gradient = at(op, Role::input_gradient),
                                       .parameter_gradient = at(op, Role::weight_gradient),
                                       .gradient_dtype = op.gradient_dtype,
                                       .accumulate = op.accumulate};
  Launch made = as_launch(kernels_.norm_backward, shapes_.norm(op), operands, space);
  return shapes_.passes_rotary_keys(op) ? latent_norm_backward(op, std::move(made)) : made;
}

Launch KernelLaunches::rotary(const BoundOp& op, bool backward) {
  const Role to = backward ? Role::input_gradient : Role::output;
  const Role from = backward ? Role::gradient : Role::input;
  const Operand& target = first_of(op, to, from);
  return as_launch(kernels_.rotary, shapes_.heads(target.bytes), backward,
                   parts_.memory.rotary_table, at(first_of(op, from, to)), at(target));
}

Launch KernelLaunches::shared_heads(const BoundOp& op) {
  SIM_CHECK(parts_.shared_heads != nullptr, op.model_op->name);
  const bool joins = op.action == Action::join_output;
  return as_launch(joins ? parts_.shared_heads->take_heads : parts_.shared_heads->spread_heads,
                   shapes_.shared_heads(), at(op, Role::input), at(op, Role::output));
}

// An attention keeps in `saved` its log-sum-exps or probabilities. Where key/value heads are
// shared, its own queries, keys and values stand before them: the gathered ones are not kept.
KernelLaunches::KeptAttention KernelLaunches::kept_attention(
    const BoundOp& op, const kernels::AttentionShape& shape) const {
  const Operand& saved = op.operand(Role::saved);
  const std::int64_t heads =
      shape.heads.tokens * shape.heads.row() * sim::bytes_of(shapes_.activations());
  // The plan also counts what a framework keeps besides: a mask, the scores of an eager softmax.
  SIM_CHECK(!saved.exists() || saved.bytes >= kept_bytes(shape), op.model_op->name, saved.bytes);
  const bool has_heads = shapes_.shares_key_heads() && saved.bytes >= heads + kept_bytes(shape);
  std::byte* sums = at(op, Role::saved);
  if (!has_heads) return {.sums = floats(sums)};
  return {.heads = sums, .heads_bytes = heads, .sums = floats(sums + heads)};
}

Launch KernelLaunches::attention_forward(const BoundOp& op) {
  if (attends_over_ranks()) return attend_slice(op);
  kernels::AttentionShape shape = shapes_.attention(op);
  shape.rules = score_rules(op);
  const KeptAttention kept = kept_attention(op, shape);
  const AttentionForward operands{
      .qkv = at(op, Role::input), .output = at(op, Role::output), .log_sum_exp = kept.sums};
  Launch made = attention_for(shape, parts_.attentions).forward(shape, operands, workspace(op));
  if (kept.heads == nullptr) return made;
  return kernels::in_turn(
      as_launch(kernels_.copy, kept.heads, at(op, Role::input), kept.heads_bytes), std::move(made));
}

Launch KernelLaunches::attention_backward(const BoundOp& op) {
  if (attends_over_ranks()) return attend_slice_backward(op);
  kernels::AttentionShape shape = shapes_.attention(op);
  shape.rules = score_rules(op);
  const KeptAttention kept = kept_attention(op, shape);
  const bool has_input = op.operand(Role::input).exists();
  const kernels::AttentionBackward operands{.qkv = has_input ? at(op, Role::input) : kept.heads,
                                            .output = at(op, Role::saved_output),
                                            .log_sum_exp = kept.sums,
                                            .gradient = at(op, Role::gradient),
                                            .qkv_gradient = at(op, Role::input_gradient)};
  return attention_for(shape, parts_.attentions).backward(shape, operands, workspace(op));
}

Launch KernelLaunches::activation_forward(const BoundOp& op) {
  return keep_input(op, as_launch(kernels_.activation_forward, shapes_.activation(op),
                                  at(op, Role::input), at(op, Role::output)));
}

// The role of the tensor that the backward pass of an activation reads.
Role KernelLaunches::kept_of(const BoundOp& op) {
  return op.operand(Role::saved_output).exists() ? Role::saved_output : kept_input_of(op);
}

Launch KernelLaunches::activation_backward(const BoundOp& op) {
  return as_launch(kernels_.activation_backward, shapes_.activation(op), at(op, kept_of(op)),
                   at(op, Role::gradient), at(op, Role::input_gradient));
}

}  // namespace real
