// A layer: its branches, with norms before and behind them, and the sums of what goes past them.
#include "sim/model/transformer.hpp"

namespace sim {
namespace {

// Where one tensor feeds both the residual path and a branch, autograd adds the two gradients in a
// kernel of its own: two reads and a write. It belongs to the operator whose backward pass is last
// to deliver. Pre-norm, that is the norm at the head of the branch; post-norm, the branch begins
// with a linear, and the planner lowers the sum behind its input gradient.
constexpr double gradient_add_traffic = 3;

// Norms, residual sums and dropout of the two branches differ only in their names.
struct BranchNames {
  const char *norm, *output_norm, *scale, *residual;
};

using Append = void (*)(Block&, const TransformerShape&);

// DeciLM's replacement of a branch: one product, whole on every tensor rank.
void append_linear(Block& block, const TransformerShape& shape, const char* name, bool bias) {
  block.ops.push_back(linear_op(name, TensorSplit::sequence, shape.hidden, shape.hidden, bias));
}
void append_attention_linear(Block& block, const TransformerShape& shape) {
  append_linear(block, shape, "attention_linear", shape.projection_bias);
}
void append_mlp_linear(Block& block, const TransformerShape& shape) {
  append_linear(block, shape, "mlp_linear", shape.mlp_bias);
}

// FalconH1DecoderLayer of transformers (models/falcon_h1/modular_falcon_h1.py): both mixers work on
// what the norm made, and what they give is added.
//
// With scaled branches each input, the product of the scan, the keys and what attention gives are
// multiplied by numbers of their own, counted behind the first products.
void append_attention_and_mamba2(Block& block, const TransformerShape& shape) {
  const auto append_scaled = [&](Append append, const char* name, std::int64_t also) {
    const std::size_t first = block.ops.size();
    append(block, shape);
    if (!shape.residual_scale) return;
    const ModelOp& product = block.ops[first];
    ModelOp scale = scale_op(name, TensorSplit::inner, product.out_features);
    scale.forward_elements = scale.backward_elements = 2 * as_double(also);
    scale.forward_launches = scale.backward_launches = 2;
    block.ops.insert(block.ops.begin() + static_cast<std::ptrdiff_t>(first) + 1, scale);
  };
  const auto scan = static_cast<int>(block.ops.size());
  append_scaled(append_mamba2, "mamba_scale", shape.hidden + shape.hybrid.mamba.projected());
  const std::size_t attention = block.ops.size();
  append_scaled(append_attention, "attention_scale",
                2 * shape.hidden + shape.kv_heads * shape.head_dim);
  block.ops[attention].starts_from = scan;
  ModelOp sum = residual_op(shape, "mixer_sum", 0);
  sum.residual_of = static_cast<int>(attention);
  block.ops.push_back(sum);
}

Append append_of(Mixer mixer) {
  switch (mixer) {
    case Mixer::attention:
      return append_attention;
    case Mixer::mamba2:
      return append_mamba2;
    case Mixer::gated_delta_net:
      return append_gated_delta_net;
    case Mixer::linear:
      return append_attention_linear;
    case Mixer::attention_mamba2:
      return append_attention_and_mamba2;
    case Mixer::none:
      break;
  }
  return nullptr;
}

Append append_of(FeedForward feed_forward) {
  switch (feed_forward) {
    case FeedForward::mlp:
      return append_mlp;
    case FeedForward::experts:
      return append_experts;
    case FeedForward::linear:
      return append_mlp_linear;
    case FeedForward::none:
      break;
  }
  return nullptr;
}

void append_branch(Block& block, const TransformerShape& shape, Append append,
                   const BranchNames& names, double dropout) {
  const auto first = static_cast<int>(block.ops.size());  // the norm, or the linear behind it
  if (norms_input(shape.norm_placement)) {
    ModelOp norm = norm_op(shape, names.norm);
    norm.backward_beside = gradient_add_traffic * static_cast<double>(shape.hidden);
    norm.backward_elements += norm.backward_beside;
    block.ops.push_back(norm);
  }
  append(block, shape);
  if (norms_branch(shape.norm_placement)) block.ops.push_back(norm_op(shape, names.output_norm));
  if (shape.residual_scale)
    block.ops.push_back(scale_op(names.scale, TensorSplit::sequence, shape.hidden));
  ModelOp sum = residual_op(shape, names.residual, dropout);
  sum.residual_of = first;
  block.ops.push_back(sum);
  if (shape.norm_placement == NormPlacement::post) block.ops.push_back(norm_op(shape, names.norm));
}

}  // namespace

Block transformer_layer(const TransformerShape& shape, const LayerKind& kind) {
  TransformerShape own = shape;
  if (kind.kv_heads > 0) own.kv_heads = kind.kv_heads;
  if (kind.width > 0) own.feed_forward = kind.width;
  Block block{.name = "layer", .ops = {}, .output_elements = shape.hidden};
  const bool post = shape.norm_placement == NormPlacement::post;
  const bool attends = kind.mixer == Mixer::attention || kind.mixer == Mixer::linear;
  if (const Append append = append_of(kind.mixer))
    append_branch(block, own, append,
                  {.norm = post ? "attention_norm" : "input_norm",
                   .output_norm = attends ? "attention_output_norm" : "mixer_output_norm",
                   .scale = attends ? "attention_scale" : "mixer_scale",
                   .residual = attends ? "attention_residual" : "mixer_residual"},
                  shape.projection_dropout);
  if (const Append append = append_of(kind.feed_forward))
    append_branch(block, own, append,
                  {.norm = post ? "output_norm" : "post_attention_norm",
                   .output_norm = "mlp_output_norm",
                   .scale = "mlp_scale",
                   .residual = "mlp_residual"},
                  shape.mlp_dropout);
  if (kind.kv_heads > 0)
    for (ModelOp& op : block.ops)
      if (op.kind == ModelOpKind::attention) op.kv_heads = kind.kv_heads;
  return block;
}

}  // namespace sim
