// The interface of the CUDA kernels, played by those of the host backend: the oracle of the real
// ones, and what the backend's own tests run on. Layers' operators.
#include "tests/gpu/fakes/naive_kernels.hpp"

#include "real/cuda/kernels/kernels.hpp"
#include "real/host/kernels_attention.hpp"
#include "real/host/kernels_elementwise.hpp"
#include "real/host/kernels_norm.hpp"
#include "tests/gpu/fakes/fake_device.hpp"

namespace real::kernels {

using fakes::enqueue_call;
using fakes::put;
using fakes::put_gradient;
using fakes::take;
using sim::DType;

namespace {

real::NormShape of(const NormShape& shape) {
  return {.rows = shape.rows, .features = shape.width, .function = shape.function};
}

std::int64_t norm_parameters(sim::Function function, std::int64_t width) {
  return has_shift(function) ? 2 * width : width;
}

HeadNormShape of(const HeadsShape& shape, const HeadNorm& norm) {
  return {.tokens = shape.tokens,
          .heads = shape.heads,
          .kv_heads = shape.kv_heads,
          .head_dim = shape.head_dim,
          .function = norm.function};
}

AttentionSize of(const AttentionShape& shape) {
  const HeadsShape& heads = shape.heads;
  return {.batch = heads.tokens / heads.sequence,
          .sequence = heads.sequence,
          .heads = heads.heads,
          .kv_heads = heads.kv_heads,
          .head_dim = heads.head_dim,
          .causal = shape.causal};
}

RotaryShape rotary_of(const HeadsShape& shape) {
  return {.tokens = shape.tokens,
          .sequence = shape.sequence,
          .heads = shape.heads + shape.kv_heads,
          .head_dim = shape.head_dim,
          .width = shape.row()};
}

}  // namespace

void norm_forward(const NormShape& shape, const void* input, const void* parameters, void* output,
                  StreamHandle stream) {
  enqueue_call(stream, [=] {
    const auto x = take(shape.dtype, input, shape.rows * shape.width);
    const auto p = take(shape.dtype, parameters, norm_parameters(shape.function, shape.width));
    std::vector<float> y(x.size());
    real::norm_forward(of(shape), x, p, y);
    put(shape.dtype, output, y);
  });
}

void norm_backward(const NormShape& shape, const NormBackward& operands, Workspace,
                   StreamHandle stream) {
  enqueue_call(stream, [=] {
    const std::int64_t elements = shape.rows * shape.width;
    const auto x = take(shape.dtype, operands.input, elements);
    const auto p =
        take(shape.dtype, operands.parameters, norm_parameters(shape.function, shape.width));
    const auto dy = take(shape.dtype, operands.gradient, elements);
    const auto residual = take(shape.dtype, operands.residual_gradient, elements);
    std::vector<float> dx(x.size());
    std::vector<float> dp(p.size());
    real::norm_backward(of(shape), {.x = x,
                                    .parameters = p,
                                    .dy = dy,
                                    .residual = residual,
                                    .dx = dx,
                                    .parameter_gradients = dp,
                                    .accumulate = false});
    put(shape.dtype, operands.input_gradient, dx);
    put_gradient(operands.gradient_dtype, operands.accumulate, operands.parameter_gradient, dp);
  });
}
std::int64_t norm_backward_workspace(const NormShape&) {
  return 0;
}

void head_norm_forward(const HeadsShape& shape, const HeadNorm& norm, const void* input,
                       const void* parameters, void* output, void* saved, StreamHandle stream) {
  enqueue_call(stream, [=] {
    auto rows = take(shape.dtype, input, shape.tokens * shape.row());
    const auto p =
        take(shape.dtype, parameters, 2 * norm_parameters(norm.function, shape.head_dim));
    const std::int64_t kept = (shape.heads + shape.kv_heads) * shape.head_dim;
    std::vector<float> raw(static_cast<std::size_t>(saved ? shape.tokens * kept : 0));
    real::head_norm_forward(of(shape, norm), p, rows, raw);
    put(shape.dtype, output, rows);
    if (saved != nullptr) put(shape.dtype, saved, raw);
  });
}

void head_norm_backward(const HeadsShape& shape, const HeadNorm& norm,
                        const HeadNormBackward& operands, Workspace, StreamHandle stream) {
  enqueue_call(stream, [=] {
    const std::int64_t kept = (shape.heads + shape.kv_heads) * shape.head_dim;
    const auto raw = take(shape.dtype, operands.saved, shape.tokens * kept);
    const auto p =
        take(shape.dtype, operands.parameters, 2 * norm_parameters(norm.function, shape.head_dim));
    auto gradient = take(shape.dtype, operands.gradient, shape.tokens * shape.row());
    std::vector<float> dp(p.size());
    real::head_norm_backward(of(shape, norm), raw, p, gradient, dp, false);
    put(shape.dtype, operands.input_gradient, gradient);
    put_gradient(operands.gradient_dtype, operands.accumulate, operands.parameter_gradient, dp);
  });
}
std::int64_t head_norm_backward_workspace(const HeadsShape&) {
  return 0;
}

std::int64_t rotary_table_bytes(std::int64_t sequence, std::int64_t head_dim) {
  return sequence * head_dim * static_cast<std::int64_t>(sizeof(float));
}
void fill_rotary_table(std::int64_t sequence, std::int64_t head_dim, double, float* table,
                       StreamHandle stream) {
  enqueue_call(stream, [=] { std::fill_n(table, sequence * head_dim, 1.0F); });
}
void rotary(const HeadsShape& shape, bool backward, const float* table, const void* input,
            void* output, StreamHandle stream) {
  enqueue_call(stream, [=] {
    auto rows = take(shape.dtype, input, shape.tokens * shape.row());
    real::rotary(rotary_of(shape), rows, backward);
    if (table[0] != 1.0F) rows.assign(rows.size(), table[0]);  // nobody filled it
    put(shape.dtype, output, rows);
  });
}

void attention_forward(const AttentionShape& shape, const void* qkv, void* output,
                       float* log_sum_exp, StreamHandle stream) {
  enqueue_call(stream, [=] {
    const AttentionSize size = of(shape);
    const DType dtype = shape.heads.dtype;
    const auto in = take(dtype, qkv, size.tokens() * size.qkv_width());
    std::vector<float> out(static_cast<std::size_t>(size.tokens() * size.out_width()));
    std::vector<float> sums(static_cast<std::size_t>(size.log_sums()));
    flash_forward(size, in, out, sums);
    if (output != nullptr) put(dtype, output, out);
    if (log_sum_exp != nullptr) put(DType::fp32, log_sum_exp, sums);
  });
}
void attention_backward(const AttentionShape& shape, const AttentionBackward& operands, Workspace,
                        StreamHandle stream) {
  enqueue_call(stream, [=] {
    const AttentionSize size = of(shape);
    const DType dtype = shape.heads.dtype;
    const auto in = take(dtype, operands.qkv, size.tokens() * size.qkv_width());
    const auto out = take(dtype, operands.output, size.tokens() * size.out_width());
    const auto sums = take(DType::fp32, operands.log_sum_exp, size.log_sums());
    const auto dout = take(dtype, operands.gradient, size.tokens() * size.out_width());
    std::vector<float> dqkv(in.size());
    flash_backward(size, in, out, sums, dout, dqkv);
    put(dtype, operands.qkv_gradient, dqkv);
  });
}
std::int64_t attention_backward_workspace(const AttentionShape&) {
  return 0;
}

void activation_forward(const ActivationShape& shape, const void* input, void* output,
                        StreamHandle stream) {
  enqueue_call(stream, [=] {
    const std::int64_t in = (is_gated(shape.function) ? 2 : 1) * shape.width;
    const auto x = take(shape.dtype, input, shape.rows * in);
    std::vector<float> y(static_cast<std::size_t>(shape.rows * shape.width));
    real::activation_forward(shape.function, shape.width, x, y);
    put(shape.dtype, output, y);
  });
}
void activation_backward(const ActivationShape& shape, const void* saved, const void* gradient,
                         void* input_gradient, StreamHandle stream) {
  enqueue_call(stream, [=] {
    const std::int64_t in = (is_gated(shape.function) ? 2 : 1) * shape.width;
    const auto x = take(shape.dtype, saved, shape.rows * in);
    const auto dy = take(shape.dtype, gradient, shape.rows * shape.width);
    std::vector<float> dx(x.size());
    real::activation_backward(shape.function, shape.width, x, dy, dx);
    put(shape.dtype, input_gradient, dx);
  });
}

void add(DType dtype, std::int64_t elements, const void* a, const void* b, void* output,
         StreamHandle stream) {
  enqueue_call(stream, [=] {
    auto left = take(dtype, a, elements);
    const auto right = take(dtype, b, elements);
    for (std::size_t i = 0; i < left.size(); ++i)
      left[i] += right[i];
    put(dtype, output, left);
  });
}
void cast(const Cast& how, std::int64_t elements, const void* from, void* to, StreamHandle stream) {
  enqueue_call(stream, [=] {
    auto values = take(how.from, from, elements);
    for (float& value : values)
      value *= how.scale;
    put_gradient(how.to, how.accumulate, to, values);
  });
}
void zero(void* memory, std::int64_t bytes, StreamHandle stream) {
  enqueue_call(stream, [=] { std::memset(memory, 0, static_cast<std::size_t>(bytes)); });
}
void add_bias(DType dtype, std::int64_t rows, std::int64_t width, const void* bias, void* output,
              StreamHandle stream) {
  enqueue_call(stream, [=] {
    auto values = take(dtype, output, rows * width);
    const auto b = take(dtype, bias, width);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] += b[i % b.size()];
    put(dtype, output, values);
  });
}
void bias_gradient(const ColumnSum& shape, const void* gradient, void* to, Workspace,
                   StreamHandle stream) {
  enqueue_call(stream, [=] {
    const auto values = take(shape.dtype, gradient, shape.rows * shape.width);
    std::vector<float> sums(static_cast<std::size_t>(shape.width));
    for (std::size_t i = 0; i < values.size(); ++i)
      sums[i % sums.size()] += values[i];
    put_gradient(shape.gradient_dtype, shape.accumulate, to, sums);
  });
}
std::int64_t bias_gradient_workspace(const ColumnSum&) {
  return 0;
}

}  // namespace real::kernels
