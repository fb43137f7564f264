// The indexer of DeepSeek-V3.2's sparse attention (arXiv:2512.02556, section 2.1;
// deepseek-ai/DeepSeek-V3.2-Exp, inference/model.py, Indexer; Megatron-LM,
// core/transformer/experimental_attention_variant/dsa.py, DSAIndexer): queries of its own from the
// narrow vector that the queries come from, one key and a weight for each of its heads from the
// hidden state. It works beside queries, keys and values, which pass it as they are.
//
// It is trained by a loss of its own (section 2.1.1): no gradient leaves it for the layer, so that
// its backward pass has the gradients of its weights alone. Scores of all tokens, the choice and
// the loss are counted with the attention (sim/plan/sharding/sparse_attention.cpp).
#include "sim/model/transformer.hpp"

namespace sim {

std::string indexers_problem(const TransformerShape& shape) {
  if (shape.sparse.chooses(0)) return {};
  return "the first layer chooses no keys, and no layer before it does; allowed: a set with layer "
         "0";
}

void append_indexer(Block& block, const TransformerShape& shape) {
  const SparseAttention& sparse = shape.sparse;
  const std::int64_t queries = sparse.index_heads * sparse.index_dim;
  const std::int64_t matrices =
      shape.latent.query_rank * queries + shape.hidden * (sparse.index_dim + sparse.index_heads);
  // Reads the narrow vector, and the hidden state for the key and for the weights; the products
  // write queries, key and weights, which rotation and norm read and write again.
  const auto read = static_cast<double>(shape.latent.query_rank + 2 * shape.hidden);
  const auto made = static_cast<double>(queries + sparse.index_dim + sparse.index_heads);
  const auto flops = Flops{2 * static_cast<double>(matrices)};
  const std::int64_t width = block.ops.back().out_features;
  block.ops.push_back({.name = "indexer",
                       .kind = ModelOpKind::scan,
                       .split = TensorSplit::sequence,
                       .in_place = true,
                       .in_features = width,
                       .out_features = width,
                       .biases = matrices + 2 * sparse.index_dim,  // of the key's LayerNorm
                       .forward_elements = read + 3 * made,
                       .backward_elements = read + 3 * made,
                       .forward_launches = 8,
                       .backward_launches = 8,
                       .saved_elements = made,
                       .forward_flops = flops,
                       .backward_flops = flops,
                       .model_flops = flops});
}

}  // namespace sim
