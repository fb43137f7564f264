// Operators of the model's layers.
#include "real/cuda/device.hpp"
#include "real/cuda/prepare.hpp"
#include "sim/base/check.hpp"

namespace real {

using sim::Action;
using sim::Function;
using sim::Role;

void copy_on_device(void* to, const void* from, std::int64_t bytes, cudaStream_t stream) {
  if (to == from || bytes == 0) return;
  check(
      cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice, stream),
      "a copy on the device");
}

namespace {

Role kept_input_of(const BoundOp& op) {
  return op.operand(Role::input).exists() ? Role::input : Role::saved;
}

}  // namespace

Launch Preparation::launch_of(const BoundOp& op) {
  if (op.collective != nullptr || op.transfer != nullptr) return communication(op);
  if (op.model_op != nullptr) return model_op(op);
  return state_op(op);
}

Launch Preparation::keep_input(const BoundOp& op, Launch launch) {
  if (!op.operand(Role::saved).exists() || !op.operand(Role::input).exists()) return launch;
  std::byte* to = at(op, Role::saved);
  const std::byte* from = at(op, Role::input);
  const std::int64_t bytes = op.operand(Role::saved).bytes;
  SIM_CHECK(bytes == op.operand(Role::input).bytes, op.model_op->name, bytes);
  return [=, launch = std::move(launch)](cudaStream_t stream) {
    copy_on_device(to, from, bytes, stream);  // first: the kernel may work in place
    launch(stream);
  };
}

Launch Preparation::model_op(const BoundOp& op) {
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
    case Action::add_product_gradient:
      return add(op, Role::input_gradient, Role::input, Role::input_gradient);
    default:
      SIM_CHECK(false, op.model_op->name, static_cast<int>(op.action));
  }
}

Launch Preparation::forward(const BoundOp& op) {
  switch (op.model_op->function) {
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
      return add(op, Role::input, Role::residual, Role::output);
    case Function::cross_entropy:
      return loss_forward(op);
    case Function::exchange:
    case Function::none:
      SIM_CHECK(false, op.model_op->name);
    default:
      if (op.model_op->experts > 0) return weighed_forward(op);
      return activation_forward(op);
  }
}

Launch Preparation::backward(const BoundOp& op) {
  switch (op.model_op->function) {
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
      return add(op, Role::gradient, Role::residual_gradient, Role::input_gradient);
    case Function::cross_entropy:
      return loss_backward(op);
    case Function::none:
    case Function::linear:
    case Function::route:
    case Function::exchange:
      SIM_CHECK(false, op.model_op->name);
    default:
      if (op.model_op->experts > 0) return weighed_backward(op);
      return activation_backward(op);
  }
}

// Sums of tensors, of which one may be the result.
Launch Preparation::add(const BoundOp& op, Role first, Role second, Role to) {
  const std::byte* a = at(op, first);
  const std::byte* b = at(op, second);
  std::byte* output = at(op, to);
  const sim::DType dtype = shapes_.activations();
  const std::int64_t elements = op.operand(to).bytes / sim::bytes_of(dtype);
  return [=](cudaStream_t stream) { kernels::add(dtype, elements, a, b, output, stream); };
}

// The matrices of experts lie one behind the other, and so do the rows of each; a product of
// cuBLASLt for each.
Launch Preparation::products(const BoundOp& op, const GemmShape& shape,
                             const GemmOperands& operands) {
  const std::int64_t count = op.kernel->batch;
  const auto part = [count](const Operand& operand) { return operand.bytes / count; };
  const bool of_weights = shape.pass == GemmPass::weight_gradient;
  const Operand& first = op.operand(shape.pass == GemmPass::forward ? Role::input : Role::gradient);
  const Operand& second = op.operand(of_weights ? kept_input_of(op) : Role::weight);
  const Operand& result = op.operand(of_weights                        ? Role::weight_gradient
                                     : shape.pass == GemmPass::forward ? Role::output
                                                                       : Role::input_gradient);
  std::vector<std::pair<const Gemms::Plan*, GemmOperands>> made;
  for (std::int64_t i = 0; i < count; ++i) {
    GemmOperands own = operands;
    own.first = static_cast<const std::byte*>(operands.first) + i * part(first);
    own.second = static_cast<const std::byte*>(operands.second) + i * part(second);
    own.result = static_cast<std::byte*>(operands.result) + i * part(result);
    made.emplace_back(&parts_.gemms.prepare(shape, own, parts_.stream), own);
  }
  Gemms* gemms = &parts_.gemms;
  return [=](cudaStream_t stream) {
    for (const auto& [plan, own] : made)
      gemms->run(*plan, own, stream);
  };
}

Launch Preparation::linear_forward(const BoundOp& op) {
  GemmShape shape = shapes_.gemm(op);
  const sim::DType dtype = shape.dtype;
  const std::int64_t matrix = shape.in * shape.out * sim::bytes_of(dtype);
  GemmOperands operands{
      .first = at(op, Role::input), .second = at(op, Role::weight), .result = at(op, Role::output)};
  if (op.kernel->batch > 1) return keep_input(op, products(op, shape, operands));
  const std::byte* bias = shape.bias ? at(op, Role::weight) + matrix : nullptr;
  const bool epilogue = shape.bias && alignment_of(bias) >= bias_alignment;
  shape.bias = epilogue;
  if (epilogue) operands.bias = bias;
  const Gemms::Plan* plan = &parts_.gemms.prepare(shape, operands, parts_.stream);
  Gemms* gemms = &parts_.gemms;
  const std::byte* behind = epilogue ? nullptr : bias;
  return keep_input(op, [=](cudaStream_t stream) {
    gemms->run(*plan, operands, stream);
    if (behind == nullptr) return;
    kernels::add_bias(dtype, shape.tokens, shape.out, behind, operands.result, stream);
  });
}

Launch Preparation::linear_gradient(const BoundOp& op) {
  const GemmShape shape = shapes_.gemm(op);
  GemmOperands operands{.first = at(op, Role::gradient)};
  if (shape.pass == GemmPass::input_gradient) {
    operands.second = at(op, Role::weight);
    operands.result = at(op, Role::input_gradient);
  } else {
    operands.second = at(op, kept_input_of(op));
    operands.result = at(op, Role::weight_gradient);
  }
  if (op.kernel->batch > 1) return products(op, shape, operands);
  const Gemms::Plan* plan = &parts_.gemms.prepare(shape, operands, parts_.stream);
  Gemms* gemms = &parts_.gemms;
  return [=](cudaStream_t stream) { gemms->run(*plan, operands, stream); };
}

Launch Preparation::bias_gradient(const BoundOp& op) {
  const kernels::ColumnSum shape = shapes_.bias_sum(op);
  const std::byte* gradient = at(op, Role::gradient);
  const Operand& all = op.operand(Role::weight_gradient);
  std::byte* to = at(all) + all.bytes - shape.width * sim::bytes_of(shape.gradient_dtype);
  const kernels::Workspace space = workspace(op);
  return [=](cudaStream_t stream) { kernels::bias_gradient(shape, gradient, to, space, stream); };
}

Launch Preparation::norm_forward(const BoundOp& op) {
  const std::byte* parameters = at(op, Role::weight);
  std::byte* output = at(op, Role::output);
  if (shapes_.is_head_norm(op)) {
    const std::byte* input = op.operand(Role::input).exists() ? at(op, Role::input) : output;
    std::byte* saved = at(op, Role::saved);
    const kernels::HeadsShape shape = shapes_.heads(op.operand(Role::output).bytes);
    const kernels::HeadNorm norm{.function = op.model_op->function};
    return [=](cudaStream_t stream) {
      kernels::head_norm_forward(shape, norm, input, parameters, output, saved, stream);
    };
  }
  const kernels::NormShape shape = shapes_.norm(op);
  const std::byte* input = at(op, Role::input);
  return keep_input(op, [=](cudaStream_t stream) {
    kernels::norm_forward(shape, input, parameters, output, stream);
  });
}

Launch Preparation::norm_backward(const BoundOp& op) {
  const kernels::Workspace space = workspace(op);
  if (shapes_.is_head_norm(op)) {
    const kernels::HeadNormBackward operands{
        .saved = at(op, Role::saved),
        .parameters = at(op, Role::weight),
        .gradient = at(op, Role::gradient),
        .input_gradient = at(
            op, op.operand(Role::input_gradient).exists() ? Role::input_gradient : Role::gradient),
        .parameter_gradient = at(op, Role::weight_gradient),
        .gradient_dtype = shapes_.gradients(),
        .accumulate = op.accumulate};
    const kernels::HeadsShape shape = shapes_.heads(op.operand(Role::gradient).bytes);
    const kernels::HeadNorm norm{.function = op.model_op->function};
    return [=](cudaStream_t stream) {
      kernels::head_norm_backward(shape, norm, operands, space, stream);
    };
  }
  const kernels::NormShape shape = shapes_.norm(op);
  const kernels::NormBackward operands{
      .input = at(op, op.operand(Role::input).exists() ? Role::input : Role::saved),
      .parameters = at(op, Role::weight),
      .gradient = at(op, Role::gradient),
      .residual_gradient = at(op, Role::residual_gradient),
      .input_gradient = at(op, Role::input_gradient),
      .parameter_gradient = at(op, Role::weight_gradient),
      .gradient_dtype = shapes_.gradients(),
      .accumulate = op.accumulate};
  return [=](cudaStream_t stream) { kernels::norm_backward(shape, operands, space, stream); };
}

Launch Preparation::rotary(const BoundOp& op, bool backward) {
  const Role to = backward ? Role::input_gradient : Role::output;
  const Role from = backward ? Role::gradient : Role::input;
  const Operand& target = op.operand(op.operand(to).exists() ? to : from);
  const Operand& source = op.operand(op.operand(from).exists() ? from : to);
  const kernels::HeadsShape shape = shapes_.heads(target.bytes);
  const float* table = parts_.memory.rotary_table;
  const std::byte* input = at(source);
  std::byte* output = at(target);
  return
      [=](cudaStream_t stream) { kernels::rotary(shape, backward, table, input, output, stream); };
}

Launch Preparation::attention_forward(const BoundOp& op) {
  const kernels::AttentionShape shape = shapes_.attention(op);
  const std::byte* qkv = at(op, Role::input);
  std::byte* output = at(op, Role::output);
  auto* sums = reinterpret_cast<float*>(at(op, Role::saved));
  return [=](cudaStream_t stream) { kernels::attention_forward(shape, qkv, output, sums, stream); };
}

Launch Preparation::attention_backward(const BoundOp& op) {
  const kernels::AttentionShape shape = shapes_.attention(op);
  const kernels::AttentionBackward operands{
      .qkv = at(op, Role::input),
      .output = at(op, Role::saved_output),
      .log_sum_exp = reinterpret_cast<const float*>(at(op, Role::saved)),
      .gradient = at(op, Role::gradient),
      .qkv_gradient = at(op, Role::input_gradient)};
  const kernels::Workspace space = workspace(op);
  return [=](cudaStream_t stream) { kernels::attention_backward(shape, operands, space, stream); };
}

Launch Preparation::activation_forward(const BoundOp& op) {
  const kernels::ActivationShape shape = shapes_.activation(op);
  const std::byte* input = at(op, Role::input);
  std::byte* output = at(op, Role::output);
  return keep_input(
      op, [=](cudaStream_t stream) { kernels::activation_forward(shape, input, output, stream); });
}

// What the backward pass of an activation reads.
Role Preparation::kept_of(const BoundOp& op) {
  return op.operand(Role::saved_output).exists() ? Role::saved_output : kept_input_of(op);
}

Launch Preparation::activation_backward(const BoundOp& op) {
  const kernels::ActivationShape shape = shapes_.activation(op);
  const std::byte* saved = at(op, kept_of(op));
  const std::byte* gradient = at(op, Role::gradient);
  std::byte* output = at(op, Role::input_gradient);
  return [=](cudaStream_t stream) {
    kernels::activation_backward(shape, saved, gradient, output, stream);
  };
}

}  // namespace real
