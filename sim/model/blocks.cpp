// The operators of a transformer layer: shapes, parameters, memory traffic, saved activations.
//
// Saved activations follow Korthikanti et al. 2022, section 4.1, and give its totals for the
// classic layer: 34 h bytes per token at 16 bit, 10 h of them in the sequence region. As there, the
// statistics of the norms (two fp32 numbers per token) are left out. An operator saves what its
// backward pass reads; a tensor read by two is counted at the one that is named here:
//   norm             its input
//   column linear    its input (saved_input_elements)
//   attention        Q, K, V as the kernel gets them (after rotary embedding and q/k norms)
//   row linear       its input: the attention output, or the product of the activation
//   activation       its input
//   dropout          its mask, one byte per element
//
// Memory traffic counts one fused kernel where Megatron-LM has one: bias + GELU, bias + SwiGLU,
// bias + dropout + add, LayerNorm/RMSNorm in one pass, rotary embedding. Each kernel reads its
// inputs and writes its outputs once; vectors that are shared by all tokens are left out.
#include "sim/model/transformer.hpp"

namespace sim {

namespace {

// A dropout mask is a byte per element: half an element of a 16-bit dtype.
constexpr double mask_traffic = 0.5;

Function norm_function(NormKind kind) {
  switch (kind) {
    case NormKind::layer:
      return Function::layer_norm;
    case NormKind::layer_no_bias:
      return Function::layer_norm_no_bias;
    case NormKind::rms:
      return Function::rms_norm;
  }
  return Function::none;
}

Function activation_function(Activation activation) {
  switch (activation) {
    case Activation::gelu:
      return Function::gelu;
    case Activation::relu:
      return Function::relu;
    case Activation::squared_relu:
      return Function::squared_relu;
    case Activation::swiglu:
      return Function::swiglu;
    case Activation::geglu:
      return Function::geglu;
  }
  return Function::none;
}

ModelOp rotary_op(const TransformerShape& shape) {
  const std::int64_t width = (shape.heads + shape.kv_heads) * shape.head_dim;
  // Q and K read and written, in place; the backward pass is the inverse rotation. It saves
  // nothing: cosines and sines are shared by all layers.
  return {.name = "rotary",
          .kind = ModelOpKind::elementwise,
          .split = TensorSplit::inner,
          .function = Function::rotary,
          .in_place = true,
          .in_features = width,
          .out_features = width,
          .forward_elements = 2 * as_double(width),
          .backward_elements = 2 * as_double(width)};
}

ModelOp qk_norm_op(const TransformerShape& shape) {
  const std::int64_t all = (shape.heads + shape.kv_heads) * shape.head_dim;
  const double width = as_double(all);
  const std::int64_t normed = shape.qk_norm_whole ? all : shape.head_dim;
  // One norm for Q, one for K: of every head alike, or of all heads of a token together (OLMo 2).
  const std::int64_t scales = shape.qk_norm_whole ? all : 2 * shape.head_dim;
  const bool shift = shape.norm == NormKind::layer;
  // In place; the raw queries and keys, which its backward pass reads, are written beside it.
  return {.name = "qk_norm",
          .kind = ModelOpKind::norm,
          .split = TensorSplit::inner,
          .function = norm_function(shape.norm),
          .in_place = true,
          .in_features = normed,
          .out_features = normed,
          .biases = shape.qk_norm_scales ? (shift ? 2 : 1) * scales : 0,
          .forward_elements = 3 * width,
          .backward_elements = 3 * width,
          .saved_elements = width};
}

ModelOp attention_op(const TransformerShape& shape) {
  const std::int64_t value_dim = shape.latent.exists() ? shape.latent.value_dim : shape.head_dim;
  const std::int64_t queries = shape.heads * shape.head_dim;
  const std::int64_t keys_values = shape.kv_heads * (shape.head_dim + value_dim);
  const std::int64_t outputs = shape.heads * value_dim;
  const double moved = as_double(queries + keys_values + outputs);
  // Without ALiBi's slopes, sinks and a soft cap, and with one width, it is the function of its
  // name.
  const bool chooses = shape.sparse.exists() && !shape.sparse.reuses_choice;
  const bool plain = shape.positions != Positions::alibi && !shape.latent.exists() &&
                     !shape.attention_sinks && !shape.attention_softcap && !shape.sparse.exists();
  return {.name = "attention",
          .kind = ModelOpKind::attention,
          .split = TensorSplit::inner,
          .function = plain ? Function::attention : Function::none,
          .backward_reads_output = true,
          .in_features = queries + keys_values,
          .out_features = outputs,
          .biases = shape.attention_sinks ? shape.heads : 0,
          .window = shape.window,
          .top_keys = shape.sparse.exists() ? shape.sparse.top_keys : 0,
          .reuses_choice = shape.sparse.reuses_choice,
          // Forward: reads Q, K, V, writes O. Backward (Dao 2022, algorithm 4): reads Q, K, V, O
          // and dO, writes dQ, dK, dV.
          .forward_elements = moved,
          .backward_elements = 2 * moved,
          .saved_elements = as_double(queries + keys_values),
          // The chosen keys, as int32.
          .saved_fixed_bytes = chooses ? 4 * as_double(shape.sparse.top_keys) : 0};
}

// Qwen3NextAttention: the product of the queries makes a gate of the same width besides; what the
// heads give is multiplied by its sigmoid (Megatron-LM, core/transformer/attention.py,
// _apply_output_gate). Both factors are kept: the product's input, and the gate.
ModelOp attention_gate_op(const TransformerShape& shape) {
  const std::int64_t width = shape.heads * shape.head_dim;
  return {.name = "attention_gate",
          .kind = ModelOpKind::elementwise,
          .split = TensorSplit::inner,
          .in_features = width,
          .out_features = width,
          .forward_elements = 3 * as_double(width),
          .backward_elements = 5 * as_double(width),
          .saved_elements = 2 * as_double(width)};
}

}  // namespace

ModelOp linear_op(std::string name, TensorSplit split, std::int64_t in, std::int64_t out,
                  bool bias) {
  ModelOp op{.name = std::move(name),
             .kind = ModelOpKind::linear,
             .split = split,
             .function = Function::linear,
             .in_features = in,
             .out_features = out,
             .weights = in * out,
             .biases = bias ? out : 0};
  // The bias is added in the epilogue of the product or in the fused kernel that follows; its
  // gradient is a sum over tokens, a kernel that reads the gradient of the output.
  if (bias) op.backward_elements = as_double(out);
  if (split == TensorSplit::column || split == TensorSplit::vocabulary) {
    op.saved_input_elements = as_double(in);
  } else {
    op.saved_elements = as_double(in);
  }
  return op;
}

ModelOp norm_op(const TransformerShape& shape, std::string name) {
  const double h = as_double(shape.hidden);
  return {.name = std::move(name),
          .kind = ModelOpKind::norm,
          .split = TensorSplit::sequence,
          .function = norm_function(shape.norm),
          .in_features = shape.hidden,
          .out_features = shape.hidden,
          .biases = (shape.norm == NormKind::layer ? 2 : 1) * shape.hidden,
          // Forward: reads x, writes y. Backward: reads x and dy, writes dx; the gradients of scale
          // and shift are partial sums of the same pass.
          .forward_elements = 2 * h,
          .backward_elements = 3 * h,
          .saved_elements = h};
}

// Bias + dropout + residual sum in one kernel.
ModelOp residual_op(const TransformerShape& shape, std::string name, double probability) {
  const double h = as_double(shape.hidden);
  const bool dropout = probability > 0;
  ModelOp op{.name = std::move(name),
             .kind = ModelOpKind::elementwise,
             .split = TensorSplit::sequence,
             .function = Function::add_residual,
             .in_features = shape.hidden,
             .out_features = shape.hidden};
  // Forward: reads branch and residual, writes the sum (and the mask). Backward: a sum hands its
  // gradient on as it is; dropout reads it and the mask and writes the branch's gradient.
  op.forward_elements = (dropout ? 3 + mask_traffic : 3) * h;
  op.backward_elements = (dropout ? 2 + mask_traffic : 0) * h;
  op.saved_fixed_bytes = dropout ? h : 0;
  return op;
}

ModelOp activation_op(std::string name, Activation activation, TensorSplit split,
                      std::int64_t width) {
  const double out = as_double(width);
  const std::int64_t inputs = is_gated(activation) ? 2 : 1;
  const double in = as_double(inputs) * out;
  ModelOp op{.name = std::move(name),
             .kind = ModelOpKind::elementwise,
             .split = split,
             .function = activation_function(activation),
             .backward_reads_output = activation == Activation::relu,
             .in_features = inputs * width,
             .out_features = width};
  // Forward: reads its input (gate and up when gated), writes the product. Backward: reads the
  // gradient and the saved input, writes the gradient of the input.
  op.forward_elements = in + out;
  op.backward_elements = out + 2 * in;
  // ReLU can be undone from its output, which the linear behind it saves anyway.
  op.saved_elements = activation == Activation::relu ? 0 : in;
  return op;
}

ModelOp scale_op(std::string name, TensorSplit split, std::int64_t width) {
  return {.name = std::move(name),
          .kind = ModelOpKind::elementwise,
          .split = split,
          .in_features = width,
          .out_features = width,
          .forward_elements = 2 * as_double(width),
          .backward_elements = 2 * as_double(width)};
}

void append_attention(Block& block, const TransformerShape& shape) {
  const std::int64_t q = shape.heads * shape.head_dim;
  const std::int64_t kv = shape.kv_heads * shape.head_dim;
  if (shape.latent.exists()) {
    append_latent_attention(block, shape);
  } else {
    const std::int64_t gate = shape.attention_gate ? q : 0;
    block.ops.push_back(
        linear_op("qkv", TensorSplit::column, shape.hidden, q + 2 * kv + gate, shape.qkv_bias));
    if (shape.qk_norm) block.ops.push_back(qk_norm_op(shape));
    if (shape.positions == Positions::rotary && shape.rotary_share > 0)
      block.ops.push_back(rotary_op(shape));
  }
  if (shape.sparse.exists() && !shape.sparse.reuses_choice) append_indexer(block, shape);
  block.ops.push_back(attention_op(shape));
  if (shape.attention_gate) block.ops.push_back(attention_gate_op(shape));
  block.ops.push_back(linear_op("attention_projection", TensorSplit::row,
                                block.ops.back().out_features, shape.hidden,
                                shape.projection_bias));
}

void append_mlp(Block& block, const TransformerShape& shape) {
  const std::int64_t up = (is_gated(shape.activation) ? 2 : 1) * shape.feed_forward;
  block.ops.push_back(linear_op("mlp_up", TensorSplit::column, shape.hidden, up, shape.mlp_bias));
  block.ops.push_back(
      activation_op("activation", shape.activation, TensorSplit::inner, shape.feed_forward));
  block.ops.push_back(
      linear_op("mlp_down", TensorSplit::row, shape.feed_forward, shape.hidden, shape.mlp_bias));
}

}  // namespace sim
