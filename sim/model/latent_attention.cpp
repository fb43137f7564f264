// Queries, keys and values of multi-head latent attention (DeepSeek-AI 2024, arXiv:2405.04434,
// section 2.1), as Megatron-LM runs it (core/transformer/multi_latent_attention.py): narrow
// products whole on every tensor rank, their norms, wide products split by heads, and one kernel
// that turns the queries and puts keys and values together (fused_mla_yarn_rope_apply.py).
//
// The rotary part of the keys, which goes past the norm, is counted at the product that makes it.
#include "sim/model/transformer.hpp"

namespace sim {

namespace {

ModelOp latent_norm(const TransformerShape& shape, std::string name, std::int64_t rank) {
  TransformerShape narrow = shape;
  narrow.hidden = rank;
  return norm_op(narrow, std::move(name));
}

// Forward: reads and writes the rotary part of the queries, reads what the wide product made,
// writes keys and values. Backward the same the other way round. Nothing is kept.
ModelOp join_op(const TransformerShape& shape) {
  const LatentAttention& latent = shape.latent;
  const std::int64_t made = shape.heads * (latent.plain_dim + latent.value_dim);
  const std::int64_t keys_values = shape.heads * (shape.head_dim + latent.value_dim);
  const auto moved = static_cast<double>(2 * shape.heads * latent.rotary_dim + made + keys_values);
  return {.name = "rotary",
          .kind = ModelOpKind::elementwise,
          .split = TensorSplit::inner,
          .function = Function::latent_rotary,
          .in_features = made,
          .out_features = shape.heads * shape.head_dim + keys_values,
          .forward_elements = moved,
          .backward_elements = moved,
          .forward_launches = 2,
          .backward_launches = 2};
}

}  // namespace

void append_latent_attention(Block& block, const TransformerShape& shape) {
  const LatentAttention& latent = shape.latent;
  const auto first = static_cast<int>(block.ops.size());
  const std::int64_t queries = shape.heads * shape.head_dim;
  if (latent.query_rank > 0) {
    block.ops.push_back(linear_op("query_down", TensorSplit::sequence, shape.hidden,
                                  latent.query_rank, shape.qkv_bias));
    block.ops.push_back(latent_norm(shape, "query_norm", latent.query_rank));
    block.ops.push_back(
        linear_op("query_up", TensorSplit::column, latent.query_rank, queries, false));
  } else {
    block.ops.push_back(
        linear_op("query", TensorSplit::column, shape.hidden, queries, shape.qkv_bias));
  }
  const auto keys = static_cast<int>(block.ops.size());
  ModelOp narrow = linear_op("key_value_down", TensorSplit::sequence, shape.hidden,
                             latent.key_value_rank + latent.rotary_dim, shape.qkv_bias);
  narrow.starts_from = first;
  block.ops.push_back(narrow);
  block.ops.push_back(latent_norm(shape, "key_value_norm", latent.key_value_rank));
  block.ops.push_back(linear_op("key_value_up", TensorSplit::column, latent.key_value_rank,
                                shape.heads * (latent.plain_dim + latent.value_dim), false));
  ModelOp join = join_op(shape);
  join.residual_of = keys;
  block.ops.push_back(join);
}

}  // namespace sim
