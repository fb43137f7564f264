// The blocks of a vision encoder: patches, layers, projector.
//
// Sources: transformers, models/qwen2_5_vl/modeling_qwen2_5_vl.py (windows, PatchMerger),
// models/qwen3_vl/modeling_qwen3_vl.py (deepstack), models/gemma3/modeling_gemma3.py
// (Gemma3MultiModalProjector), models/llama4/modeling_llama4.py (Llama4VisionModel); NVIDIA
// Megatron-Bridge, models/qwen_vl/modelling_qwen3_vl/model.py (layers and mergers are split over
// tensor ranks).
#include <utility>

#include "sim/model/transformer.hpp"

namespace sim {
namespace {

TransformerShape shape_of_layers(const TransformerShape& language) {
  const VisionEncoder& vision = language.vision;
  TransformerShape shape;
  shape.name = language.name + ".vision";
  shape.family = "vision";
  shape.source = language.source;
  shape.layers = vision.layers;
  shape.hidden = vision.hidden;
  shape.heads = shape.kv_heads = vision.heads;
  shape.head_dim = vision.head_dim();
  shape.feed_forward = vision.feed_forward;
  shape.norm = vision.norm;
  shape.activation = vision.activation;
  shape.positions = vision.rotary ? Positions::rotary : Positions::none;
  shape.mask = AttentionMask::bidirectional;
  shape.head = Head::none;
  shape.qkv_bias = shape.projection_bias = shape.mlp_bias = vision.biases;
  return shape;
}

// A norm of `count` vectors of `width` that stand side by side.
ModelOp norm_of(NormKind kind, std::string name, std::int64_t width, std::int64_t count) {
  TransformerShape shape;
  shape.norm = kind;
  shape.hidden = width * count;
  ModelOp op = norm_op(shape, std::move(name));
  op.biases /= count;
  return op;
}

// A convolution whose stride is its kernel: a linear over the pixels of a patch.
Block block_of_patches(const VisionEncoder& vision, const TransformerShape& shape) {
  Block block{.name = "vision.patches", .ops = {}, .output_elements = vision.hidden};
  block.ops.push_back(
      linear_op("patch_embedding", TensorSplit::sequence,
                vision.channels * vision.frames * vision.patch * vision.patch, vision.hidden,
                vision.patch_bias));
  if (vision.positions > 0) {
    block.ops.push_back(
        added_table_op("positions", Function::none, vision.positions, vision.hidden));
    if (vision.class_token) block.ops.back().weights += vision.hidden;
  }
  if (vision.norm_before) block.ops.push_back(norm_op(shape, "norm_before"));
  return block;
}

Block layer_of_vision(const VisionEncoder& vision, const TransformerShape& shape,
                      std::int64_t layer) {
  Block block = transformer_layer(shape);
  block.name = "vision.layer";
  if (vision.window > 0 && !vision.full_attention.has(layer))
    for (ModelOp& op : block.ops)
      if (op.kind == ModelOpKind::attention) op.piece = vision.window;
  return block;
}

// Where a linear of a projector stands: pairs are split as those of an MLP; one that is left over
// is whole on every rank.
TensorSplit split_in_pairs(std::size_t linear, std::size_t linears) {
  if (linear % 2 == 1) return TensorSplit::row;
  return linear + 1 < linears ? TensorSplit::column : TensorSplit::sequence;
}

void append_linears(Block& block, const Projector& projector, std::int64_t in, std::int64_t out) {
  std::vector<std::int64_t> widths = projector.widths;
  widths.push_back(out);
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const TensorSplit split = split_in_pairs(i, widths.size());
    block.ops.push_back(
        linear_op("projector_" + std::to_string(i + 1), split, in, widths[i], projector.biases));
    in = widths[i];
    if (i + 1 == widths.size()) break;
    block.ops.push_back(activation_op("projector_activation_" + std::to_string(i + 1),
                                      Activation::gelu,
                                      split == TensorSplit::column ? TensorSplit::inner
                                                                   : TensorSplit::sequence,
                                      in));
  }
}

// The further projectors side by side, as one. In truth each reads what another layer gave and
// keeps for its backward pass; their outputs are added in the first layers of the language model,
// here at once. Norms are over what the patches of a token have together.
void append_deepstack(Block& block, const TransformerShape& language) {
  const Projector& projector = language.vision.projector;
  const std::int64_t in = language.vision.merged() * language.vision.hidden;
  const std::int64_t all = projector.deepstack * in;
  const auto first = static_cast<int>(block.ops.size());
  ModelOp norm = norm_of(projector.norm, "deepstack_norm", all, 1);
  norm.in_features = in;
  norm.out_features = all;
  norm.saved_elements = as_double(in);
  norm.starts_from = 0;
  block.ops.push_back(norm);
  ModelOp up = linear_op("deepstack_up", TensorSplit::column, in, all, projector.biases);
  up.saved_input_elements = as_double(all);
  block.ops.push_back(up);
  block.ops.push_back(
      activation_op("deepstack_activation", Activation::gelu, TensorSplit::inner, all));
  ModelOp down =
      linear_op("deepstack_down", TensorSplit::row, all, language.hidden, projector.biases);
  down.biases *= projector.deepstack;
  block.ops.push_back(down);
  ModelOp sum = residual_op(language, "deepstack_sum", 0);
  sum.residual_of = first;
  block.ops.push_back(sum);
}

// The mean of the patches of a token: reads them, writes it; backward the same the other way round.
ModelOp pool_op(const VisionEncoder& vision) {
  const double moved = as_double((vision.merged() + 1) * vision.hidden);
  return {.name = "pool",
          .kind = ModelOpKind::elementwise,
          .split = TensorSplit::sequence,
          .in_features = vision.merged() * vision.hidden,
          .out_features = vision.hidden,
          .forward_elements = moved,
          .backward_elements = moved};
}

// All sizes are of a token, which is made of `merged` patches.
Block block_of_projector(const TransformerShape& language) {
  const VisionEncoder& vision = language.vision;
  const Projector& projector = vision.projector;
  Block block{.name = "vision.projector", .ops = {}, .output_elements = language.hidden};
  const std::int64_t count = projector.pools ? 1 : vision.merged();
  if (vision.norm_behind)
    block.ops.push_back(norm_of(vision.norm, "norm_behind", vision.hidden, vision.merged()));
  if (projector.pools) block.ops.push_back(pool_op(vision));
  if (projector.has_norm)
    block.ops.push_back(norm_of(projector.norm, "projector_norm", vision.hidden, count));
  append_linears(block, projector, count * vision.hidden, language.hidden);
  if (projector.deepstack > 0) append_deepstack(block, language);
  return block;
}

void name_apart(Block& block) {
  for (ModelOp& op : block.ops)
    op.name = "vision." + op.name;
}

}  // namespace

// torch.Tensor.masked_scatter (transformers, modeling_qwen3_vl.py, forward; PyTorch,
// tools/autograd/derivatives.yaml). Forward: the embeddings copied 1 + 1, the mask, image tokens
// read and written where they go, at most 1 + 1. Backward: the gradient with zeros in their places
// 1 + 1, the mask, and their own gradient, which the embedding's kernel is counted with.
ModelOp place_images_op(const TransformerShape& shape) {
  const double h = as_double(shape.hidden);
  return {.name = std::string{place_images_name},
          .kind = ModelOpKind::elementwise,
          .split = TensorSplit::sequence,
          .residual_of = 0,
          .in_features = shape.hidden,
          .out_features = shape.hidden,
          .forward_elements = 4.5 * h,
          .backward_elements = 2.5 * h,
          .forward_launches = 2};
}

Model build_vision_encoder(const TransformerShape& language) {
  const VisionEncoder& vision = language.vision;
  TransformerShape shape = shape_of_layers(language);
  Model model;
  model.name = shape.name;
  model.family = shape.family;
  model.source = shape.source;
  model.hidden = vision.hidden;
  model.attention = {.heads = vision.heads,
                     .kv_heads = vision.heads,
                     .head_dim = vision.head_dim(),
                     .value_dim = vision.head_dim(),
                     .causal = false};
  model.feed_forward = vision.feed_forward;
  model.input = block_of_patches(vision, shape);
  for (std::int64_t layer = 0; layer < vision.layers; ++layer)
    model.layers.push_back(layer_of_vision(vision, shape, layer));
  model.output = block_of_projector(language);
  name_apart(model.input);
  for (Block& layer : model.layers)
    name_apart(layer);
  name_apart(model.output);
  model.shape = std::move(shape);
  return model;
}

}  // namespace sim
