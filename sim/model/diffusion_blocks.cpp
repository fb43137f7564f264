// The blocks of a diffusion transformer.
//
// Source: pytorch/torchtitan, models/flux/model/layers.py and model.py (DoubleStreamBlock,
// SingleStreamBlock, Modulation, LastLayer), which follow black-forest-labs/flux.
// Traffic counts a fused kernel where NVIDIA NeMo has one (jit_fuser of modulated norms and of gated
// sums): a modulated tensor is read and written once. All sizes are per token of the joint sequence;
// the linears of a double block have two matrices, each for half of the tokens in their kernels.
#include <utility>

#include "sim/model/diffusion.hpp"
#include "sim/model/transformer.hpp"

namespace sim {
namespace {

constexpr std::int64_t streams_of_double = 2;

// Norms without parameters; backward, that at the head of a branch adds what went past it.
ModelOp plain_norm(const DiffusionShape& shape, std::string name, bool adds) {
  TransformerShape sizes;
  sizes.hidden = shape.hidden;
  ModelOp op = norm_op(sizes, std::move(name));
  op.biases = 0;
  if (adds) {
    op.backward_beside = as_double(shape.hidden);
    op.backward_elements += op.backward_beside;
  }
  return op;
}

// Of one vector for each image: silu, and a product that makes so many vectors of the hidden size.
ModelOp modulation_op(const DiffusionShape& shape, std::string name, std::int64_t vectors) {
  ModelOp op = linear_op(std::move(name), TensorSplit::sequence, shape.hidden,
                         vectors * shape.hidden, true);
  op.once_per_sequence = true;
  return op;
}

// (1 + scale) y + shift. Backward: the gradient and y read, the gradient of y written; those of
// scale and shift are sums of the same pass. Kept: y.
ModelOp modulate_op(const DiffusionShape& shape, std::string name) {
  const double h = as_double(shape.hidden);
  return {.name = std::move(name),
          .kind = ModelOpKind::elementwise,
          .split = TensorSplit::sequence,
          .in_features = shape.hidden,
          .out_features = shape.hidden,
          .forward_elements = 2 * h,
          .backward_elements = 3 * h,
          .saved_elements = h};
}

// x + gate y. Backward: the gradient and y read, the gradient of y written. Kept: y.
ModelOp gated_sum_op(const DiffusionShape& shape, std::string name, std::size_t first) {
  ModelOp op = modulate_op(shape, std::move(name));
  op.residual_of = static_cast<int>(first);
  op.forward_elements = 3 * as_double(shape.hidden);
  return op;
}

// Norms of queries and keys of each head, rotary positions, attention without a mask.
void append_joint_attention(Block& block, const DiffusionShape& shape, std::int64_t streams,
                            std::int64_t in) {
  TransformerShape sizes;
  sizes.hidden = shape.hidden;
  sizes.heads = sizes.kv_heads = shape.heads;
  sizes.head_dim = shape.hidden / shape.heads;
  sizes.norm = NormKind::rms;
  sizes.qk_norm = true;
  sizes.positions = Positions::rotary;
  Block attention;
  append_attention(attention, sizes);
  for (ModelOp& op : attention.ops) {
    if (op.kind == ModelOpKind::linear) continue;
    op.biases *= streams;  // of the norms
    if (op.kind == ModelOpKind::attention) op.in_features = in;
    block.ops.push_back(std::move(op));
  }
}

// A matrix for each stream.
ModelOp stream_linear(std::string name, TensorSplit split, std::int64_t in, std::int64_t out) {
  ModelOp op = linear_op(std::move(name), split, in, out, true);
  op.streams = streams_of_double;
  op.weights *= op.streams;
  op.biases *= op.streams;
  return op;
}

Block double_block(const DiffusionShape& shape) {
  const std::int64_t h = shape.hidden;
  Block block{.name = "double", .ops = {}, .output_elements = h};
  block.ops.push_back(plain_norm(shape, "input_norm", true));
  block.ops.push_back(modulation_op(shape, "modulation", 6 * streams_of_double));
  block.ops.push_back(modulate_op(shape, "modulate"));
  block.ops.push_back(stream_linear("qkv", TensorSplit::column, h, 3 * h));
  append_joint_attention(block, shape, streams_of_double, 3 * h);
  block.ops.push_back(stream_linear("attention_projection", TensorSplit::row, h, h));
  block.ops.push_back(gated_sum_op(shape, "attention_residual", 0));
  const std::size_t mlp = block.ops.size();
  block.ops.push_back(plain_norm(shape, "post_attention_norm", true));
  block.ops.push_back(modulate_op(shape, "mlp_modulate"));
  block.ops.push_back(stream_linear("mlp_up", TensorSplit::column, h, shape.feed_forward));
  block.ops.push_back(
      activation_op("activation", Activation::gelu, TensorSplit::inner, shape.feed_forward));
  block.ops.push_back(stream_linear("mlp_down", TensorSplit::row, shape.feed_forward, h));
  block.ops.push_back(gated_sum_op(shape, "mlp_residual", mlp));
  return block;
}

// The activation writes its output beside that of attention, which is copied.
ModelOp joined_activation(const DiffusionShape& shape) {
  const double h = as_double(shape.hidden);
  ModelOp op =
      activation_op("activation", Activation::gelu, TensorSplit::inner, shape.feed_forward);
  op.in_features = op.out_features = shape.hidden + shape.feed_forward;
  op.forward_elements += 2 * h;
  op.backward_elements += 2 * h;
  op.function = Function::none;
  return op;
}

Block single_block(const DiffusionShape& shape) {
  const std::int64_t h = shape.hidden, wide = 3 * h + shape.feed_forward;
  Block block{.name = "single", .ops = {}, .output_elements = h};
  block.ops.push_back(plain_norm(shape, "input_norm", true));
  block.ops.push_back(modulation_op(shape, "modulation", 3));
  block.ops.push_back(modulate_op(shape, "modulate"));
  block.ops.push_back(linear_op("qkv_mlp_up", TensorSplit::column, h, wide, true));
  append_joint_attention(block, shape, 1, wide);
  block.ops.push_back(joined_activation(shape));
  block.ops.push_back(linear_op("projection_mlp_down", TensorSplit::row, h + shape.feed_forward, h,
                                true));
  block.ops.push_back(gated_sum_op(shape, "residual", 0));
  return block;
}

// Two linears with biases and an activation between.
std::int64_t embedder_parameters(std::int64_t in, std::int64_t h) {
  return in * h + h + h * h + h;
}

// Products of latent image and text, and the vectors of time step, guidance and pooled text: less
// than a thousandth of the FLOPs, timed by their bytes.
Block block_of_inputs(const DiffusionShape& shape) {
  const std::int64_t h = shape.hidden;
  const std::int64_t vectors = embedder_parameters(shape.timestep_width, h) *
                                   (shape.guidance ? 2 : 1) +
                               embedder_parameters(shape.vector_width, h);
  const std::int64_t parameters =
      shape.channels * h + h + shape.text_width * h + h + vectors;
  const double read = as_double(shape.channels * shape.image_tokens() +
                                shape.text_width * shape.text_tokens) /
                      as_double(shape.tokens());
  const double products = read * as_double(h) + as_double(vectors) / as_double(shape.tokens());
  Block block{.name = "embedding", .ops = {}, .output_elements = h};
  block.ops.push_back({.name = "embeddings",
                       .kind = ModelOpKind::elementwise,
                       .split = TensorSplit::sequence,
                       .out_features = h,
                       .biases = parameters,
                       .forward_elements = read + as_double(h),
                       .backward_elements = read + 2 * as_double(h),
                       .forward_launches = 12,
                       .backward_launches = 24,
                       .saved_elements = read,
                       .model_flops = Flops{2 * products}});
  return block;
}

// The last product and the mean square of what is left of the noise. It is counted for all tokens;
// those of text are not read in truth, which is 64 features of 3,072.
Block block_of_outputs(const DiffusionShape& shape) {
  const double c = as_double(shape.channels);
  Block block{.name = "head", .ops = {}, .output_elements = 0};
  block.ops.push_back(plain_norm(shape, "final_norm", false));
  block.ops.push_back(modulation_op(shape, "final_modulation", 2));
  block.ops.push_back(modulate_op(shape, "final_modulate"));
  block.ops.push_back(
      linear_op("final", TensorSplit::sequence, shape.hidden, shape.channels, true));
  block.ops.push_back({.name = "loss",
                       .kind = ModelOpKind::cross_entropy,
                       .split = TensorSplit::sequence,
                       .in_features = shape.channels,
                       .out_features = 1,
                       .forward_elements = 3 * c,
                       .backward_elements = 2 * c,
                       .saved_fixed_bytes = 4 * c});
  return block;
}

}  // namespace

Model build_diffusion(const DiffusionShape& shape) {
  Model model;
  model.name = shape.name;
  model.family = shape.family;
  model.source = shape.source;
  model.is_diffusion = true;
  model.hidden = shape.hidden;
  model.fixed_sequence = shape.tokens();
  const std::int64_t width = shape.hidden / shape.heads;
  model.attention = {.heads = shape.heads,
                     .kv_heads = shape.heads,
                     .head_dim = width,
                     .value_dim = width,
                     .causal = false};
  model.feed_forward = shape.feed_forward;
  model.input = block_of_inputs(shape);
  for (std::int64_t layer = 0; layer < shape.double_layers; ++layer)
    model.layers.push_back(double_block(shape));
  for (std::int64_t layer = 0; layer < shape.single_layers; ++layer)
    model.layers.push_back(single_block(shape));
  model.output = block_of_outputs(shape);
  return model;
}

}  // namespace sim
