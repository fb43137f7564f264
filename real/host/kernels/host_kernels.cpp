// Layers' operators but those of experts; and the table.
#include "real/host/kernels/host_kernels.hpp"

#include <array>
#include <cstring>

#include "real/host/kernels/kernels_attention.hpp"
#include "real/host/kernels/kernels_eight_bit.hpp"
#include "real/host/kernels/kernels_elementwise.hpp"
#include "real/host/kernels/kernels_linear.hpp"
#include "real/host/kernels/kernels_norm.hpp"

namespace real::host {

using kernels::StreamHandle;
using kernels::Workspace;
using sim::DType;

namespace {

NormShape of(const kernels::NormShape& shape) {
  return {.rows = shape.rows, .features = shape.width, .function = shape.function};
}

std::int64_t norm_parameters(sim::Function function, std::int64_t width) {
  return has_shift(function) ? 2 * width : width;
}

HeadNormShape of(const kernels::HeadsShape& shape, const kernels::HeadNorm& norm) {
  return {.tokens = shape.tokens,
          .heads = shape.heads,
          .kv_heads = shape.kv_heads,
          .head_dim = shape.head_dim,
          .function = norm.function};
}

std::int64_t raw_heads(const kernels::HeadsShape& shape) {
  return shape.tokens * (shape.heads + shape.kv_heads) * shape.head_dim;
}

AttentionSize of(const kernels::AttentionShape& shape) {
  const kernels::HeadsShape& heads = shape.heads;
  return {.batch = heads.tokens / heads.sequence,
          .sequence = heads.sequence,
          .heads = heads.heads,
          .kv_heads = heads.kv_heads,
          .head_dim = heads.head_dim,
          .value_dim = heads.value_dim,
          .causal = shape.causal,
          .window = shape.window,
          .rules = shape.rules};
}

std::int64_t inputs(const kernels::ActivationShape& shape) {
  return shape.rows * shape.width * (is_gated(shape.function) ? 2 : 1);
}

}  // namespace

void norm_forward(const kernels::NormShape& shape, const void* input, const void* parameters,
                  void* output, StreamHandle) {
  const std::int64_t elements = shape.rows * shape.width;
  const In scales{shape.dtype, parameters, norm_parameters(shape.function, shape.width)};
  real::norm_forward(of(shape), In{shape.dtype, input, elements}, scales,
                     Out{shape.dtype, output, elements});
}

void norm_backward(const kernels::NormShape& shape, const kernels::NormBackward& operands,
                   Workspace, StreamHandle) {
  const std::int64_t elements = shape.rows * shape.width;
  const std::int64_t parameters = norm_parameters(shape.function, shape.width);
  const In x{shape.dtype, operands.input, elements};
  const In scales{shape.dtype, operands.parameters, parameters};
  const In dy{shape.dtype, operands.gradient, elements};
  const In residual{shape.dtype, operands.residual_gradient, elements};
  const Out dx{shape.dtype, operands.input_gradient, elements};
  const Out sums{operands.gradient_dtype, operands.parameter_gradient, parameters};
  real::norm_backward(of(shape), {.x = x,
                                  .parameters = scales,
                                  .dy = dy,
                                  .residual = residual,
                                  .dx = dx,
                                  .parameter_gradients = sums,
                                  .accumulate = operands.accumulate});
}
std::int64_t norm_backward_workspace(const kernels::NormShape&) {
  return 0;
}

void head_norm_forward(const kernels::HeadsShape& shape, const kernels::HeadNorm& norm,
                       const void* input, const void* parameters, void* output, void* saved,
                       StreamHandle stream) {
  const std::int64_t elements = shape.tokens * shape.row();
  host::copy(output, input, elements * sim::bytes_of(shape.dtype), stream);
  real::head_norm_forward(
      of(shape, norm),
      In{shape.dtype, parameters, 2 * norm_parameters(norm.function, shape.head_dim)},
      Out{shape.dtype, output, elements}, Out{shape.dtype, saved, raw_heads(shape)});
}

void head_norm_backward(const kernels::HeadsShape& shape, const kernels::HeadNorm& norm,
                        const kernels::HeadNormBackward& operands, Workspace, StreamHandle stream) {
  const std::int64_t elements = shape.tokens * shape.row();
  const std::int64_t parameters = 2 * norm_parameters(norm.function, shape.head_dim);
  host::copy(operands.input_gradient, operands.gradient, elements * sim::bytes_of(shape.dtype),
             stream);
  real::head_norm_backward(of(shape, norm), In{shape.dtype, operands.saved, raw_heads(shape)},
                           In{shape.dtype, operands.parameters, parameters},
                           Out{shape.dtype, operands.input_gradient, elements},
                           Out{operands.gradient_dtype, operands.parameter_gradient, parameters},
                           operands.accumulate);
}
std::int64_t head_norm_backward_workspace(const kernels::HeadsShape&) {
  return 0;
}

// Cosines and sines are computed where they are used.
std::int64_t rotary_table_bytes(std::int64_t, std::int64_t) {
  return 0;
}
void fill_rotary_table(std::int64_t, std::int64_t, double, float*, StreamHandle) {}
void rotary(const kernels::HeadsShape& shape, bool backward, const float*, const void* input,
            void* output, StreamHandle stream) {
  const std::int64_t elements = shape.tokens * shape.row();
  host::copy(output, input, elements * sim::bytes_of(shape.dtype), stream);
  real::rotary({.tokens = shape.tokens,
                .sequence = shape.sequence,
                .heads = shape.heads + shape.kv_heads,
                .head_dim = shape.head_dim,
                .turned = shape.turned(),
                .width = shape.row(),
                .context = shape.context},
               Out{shape.dtype, output, elements}, backward);
}

void attention_forward(const kernels::AttentionShape& shape, const void* qkv, void* output,
                       float* log_sum_exp, StreamHandle) {
  const AttentionSize size = of(shape);
  const In in{shape.heads.dtype, qkv, size.tokens() * size.qkv_width()};
  const Out out{shape.heads.dtype, output, size.tokens() * size.out_width()};
  flash_forward(size, in, out, Out{DType::fp32, log_sum_exp, size.log_sums()});
}

void attention_backward(const kernels::AttentionShape& shape,
                        const kernels::AttentionBackward& operands, Workspace, StreamHandle) {
  const AttentionSize size = of(shape);
  const DType dtype = shape.heads.dtype;
  const std::int64_t outputs = size.tokens() * size.out_width();
  const In qkv{dtype, operands.qkv, size.tokens() * size.qkv_width()};
  const In out{dtype, operands.output, outputs};
  const In sums{DType::fp32, operands.log_sum_exp, size.log_sums()};
  const In dout{dtype, operands.gradient, outputs};
  flash_backward(size, qkv, out, sums, dout,
                 Out{dtype, operands.qkv_gradient, size.tokens() * size.qkv_width()});
}
std::int64_t attention_backward_workspace(const kernels::AttentionShape&) {
  return 0;
}

void activation_forward(const kernels::ActivationShape& shape, const void* input, void* output,
                        StreamHandle) {
  real::activation_forward(shape.function, shape.width, In{shape.dtype, input, inputs(shape)},
                           Out{shape.dtype, output, shape.rows * shape.width});
}
void activation_backward(const kernels::ActivationShape& shape, const void* saved,
                         const void* gradient, void* input_gradient, StreamHandle) {
  real::activation_backward(shape.function, shape.width, In{shape.dtype, saved, inputs(shape)},
                            In{shape.dtype, gradient, shape.rows * shape.width},
                            Out{shape.dtype, input_gradient, inputs(shape)});
}

void add(DType dtype, std::int64_t elements, const void* a, const void* b, void* output,
         StreamHandle) {
  sum(In{dtype, a, elements}, In{dtype, b, elements}, Out{dtype, output, elements});
}

void cast(const kernels::Cast& how, std::int64_t elements, const void* from, void* to,
          StreamHandle) {
  SIM_CHECK(how.scale == 1 || !how.accumulate, how.scale);
  const In values{how.from, from, elements};
  const Out result{how.to, to, elements};
  if (how.accumulate) return real::add(values, result);
  if (how.scale == 1) return real::copy(values, result);
  real::scale(values, how.scale, result);
}

void copy(void* to, const void* from, std::int64_t bytes, StreamHandle) {
  if (to != from) std::memmove(to, from, static_cast<std::size_t>(bytes));
}

void zero(void* memory, std::int64_t bytes, StreamHandle) {
  std::memset(memory, 0, static_cast<std::size_t>(bytes));
}

void add_bias(DType dtype, std::int64_t rows, std::int64_t width, const void* bias, void* output,
              StreamHandle) {
  const In added{dtype, bias, width};
  const Out all{dtype, output, rows * width};
  const std::span<float> values = all;
  for (std::int64_t row = 0; row < rows; ++row)
    real::add(added, values.subspan(static_cast<std::size_t>(row * width),
                                    static_cast<std::size_t>(width)));
}

void bias_gradient(const kernels::ColumnSum& shape, const void* gradient, void* bias_gradient,
                   Workspace, StreamHandle) {
  real::bias_gradient(In{shape.dtype, gradient, shape.rows * shape.width},
                      Out{shape.gradient_dtype, bias_gradient, shape.width}, shape.accumulate);
}
std::int64_t bias_gradient_workspace(const kernels::ColumnSum&) {
  return 0;
}

namespace {

void unfused_attention_forward(const kernels::AttentionShape& shape, const void* qkv, void* output,
                               float* probabilities, StreamHandle) {
  const AttentionSize size = of(shape);
  unfused_forward(size, In{shape.heads.dtype, qkv, size.tokens() * size.qkv_width()},
                  Out{shape.heads.dtype, output, size.tokens() * size.out_width()},
                  Out{DType::fp32, probabilities, size.probabilities()});
}

void unfused_attention_backward(const kernels::AttentionShape& shape,
                                const kernels::AttentionBackward& operands, Workspace,
                                StreamHandle) {
  const AttentionSize size = of(shape);
  const DType dtype = shape.heads.dtype;
  unfused_backward(size, In{dtype, operands.qkv, size.tokens() * size.qkv_width()},
                   In{DType::fp32, operands.log_sum_exp, size.probabilities()},
                   In{dtype, operands.gradient, size.tokens() * size.out_width()},
                   Out{dtype, operands.qkv_gradient, size.tokens() * size.qkv_width()});
}

}  // namespace

Attentions attentions() {
  static const KernelAttention flash{
      "flash",
      {[](const kernels::AttentionShape& shape) { return shape.fused; }, attention_forward,
       attention_backward, attention_backward_workspace}};
  static const KernelAttention unfused{
      "unfused",
      {[](const kernels::AttentionShape& shape) { return !shape.fused; }, unfused_attention_forward,
       unfused_attention_backward, attention_backward_workspace}};
  static constexpr std::array<const Attention*, 2> all{&flash, &unfused};
  return all;
}

}  // namespace real::host

namespace real {

Attentions host_attentions() {
  return host::attentions();
}

kernels::Launch HostProducts::prepare(const GemmShape& shape, const GemmOperands& operands,
                                      kernels::StreamHandle) {
  const LinearShape linear{
      .tokens = shape.tokens, .in = shape.in, .out = shape.out, .stride = shape.stride};
  SIM_CHECK(shape.dtype == sim::DType::fp32 && shape.output == sim::DType::fp32);
  if (shape.coded.exist)
    return [=](kernels::StreamHandle) { host::coded_product(shape, operands); };
  const auto floats = [](const void* memory, std::int64_t rows, std::int64_t columns) {
    return std::span{static_cast<const float*>(memory), static_cast<std::size_t>(rows * columns)};
  };
  const auto result = [&](std::int64_t elements) {
    return std::span{static_cast<float*>(operands.result), static_cast<std::size_t>(elements)};
  };
  // Of Y and dY.
  const std::int64_t rows = shape.tokens > 0 ? (shape.tokens - 1) * shape.row() + shape.out : 0;
  switch (shape.pass) {
    case GemmPass::forward:
      return [=, x = floats(operands.first, shape.tokens, shape.in),
              w = floats(operands.second, shape.out, shape.in),
              bias = floats(operands.bias, 1, shape.bias ? shape.out : 0),
              y = result(rows)](kernels::StreamHandle) { linear_forward(linear, x, w, bias, y); };
    case GemmPass::input_gradient:
      return [=, dy = floats(operands.first, 1, rows),
              w = floats(operands.second, shape.out, shape.in),
              dx = result(shape.tokens * shape.in)](kernels::StreamHandle) {
        linear_input_gradient(linear, dy, w, dx, shape.accumulate);
      };
    case GemmPass::weight_gradient:
      break;
  }
  return [=, dy = floats(operands.first, 1, rows),
          x = floats(operands.second, shape.tokens, shape.in), dw = result(shape.out * shape.in),
          sum = GradientSum{.scale = shape.scale, .accumulate = shape.accumulate}](
             kernels::StreamHandle) { linear_weight_gradient(linear, x, dy, dw, sum); };
}

const kernels::Table& host_kernels() {
#define STEPCAST_KERNEL(name) .name = host::name,
  static constexpr kernels::Table table{STEPCAST_KERNELS(STEPCAST_KERNEL)};
#undef STEPCAST_KERNEL
  return table;
}

}  // namespace real
