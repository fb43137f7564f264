#include "sim/plan/selective_operators.hpp"

#include <algorithm>

namespace sim {

std::vector<std::int64_t> products_of(const Block& layer, std::size_t i,
                                      const AttentionShape& attention) {
  const ModelOp& op = layer.ops[i];
  const std::int64_t queries = attention.heads * attention.head_dim;
  const std::int64_t keys = attention.kv_heads * attention.head_dim;
  const bool last = i + 1 == layer.ops.size();
  if (op.split == TensorSplit::column && op.out_features == queries + 2 * keys && !last &&
      layer.ops[i + 1].split == TensorSplit::inner &&
      layer.ops[i + 1].kind != ModelOpKind::linear &&
      layer.ops[i + 1].function != Function::swiglu && layer.ops[i + 1].function != Function::geglu)
    return {queries, keys, keys};
  const bool gated = !last && layer.ops[i + 1].kind == ModelOpKind::elementwise &&
                     layer.ops[i + 1].in_features == 2 * layer.ops[i + 1].out_features;
  if (gated) return {op.out_features / 2, op.out_features / 2};
  return {op.out_features};
}

bool ends_products(const Block& layer, std::size_t op) {
  return layer.ops[op].kind == ModelOpKind::linear &&
         std::none_of(layer.ops.begin() + static_cast<std::ptrdiff_t>(op) + 1, layer.ops.end(),
                      [](const ModelOp& later) { return later.kind == ModelOpKind::linear; });
}

std::vector<double> shares_run_again(const Block& layer, const AttentionShape& attention,
                                     const Layout& layout) {
  std::vector<double> shares(layer.ops.size(), 1.0);
  int product = 0;
  for (std::size_t i = 0; i < layer.ops.size(); ++i) {
    const ModelOp& op = layer.ops[i];
    if (op.kind == ModelOpKind::attention) shares[i] = 0;
    if (op.kind != ModelOpKind::linear) continue;
    std::int64_t again = 0;
    for (const std::int64_t width : products_of(layer, i, attention))
      if (++product % 2 == 0) again += width;
    const bool scattered = op.split == TensorSplit::row && layout.tensor_parallel > 1;
    shares[i] = scattered || ends_products(layer, i)
                    ? 0.0
                    : static_cast<double>(again) / static_cast<double>(op.out_features);
  }
  return shares;
}

}  // namespace sim
