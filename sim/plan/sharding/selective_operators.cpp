#include "sim/plan/sharding/selective_operators.hpp"

#include <algorithm>
#include <numeric>

#include "sim/plan/sharding/low_rank.hpp"

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

bool keeps_tensors(const Execution& execution, const Layout& layout) {
  return layout.recompute == Recompute::operators && !execution.separate_products &&
         !execution.keeps_gathered_inputs && !execution.copies_tokens &&
         !execution.copies_attention && !execution.keeps_unread_outputs &&
         !is_quantized(layout.compute_dtype);
}

std::size_t operators_run_again(const Block& layer, const Execution& execution,
                                const Layout& layout) {
  const std::size_t all = layer.ops.size();
  if (!execution.stops_recomputation && !keeps_tensors(execution, layout)) return all;
  const auto keeps_nothing = [](const ModelOp& op) {
    return op.kind == ModelOpKind::elementwise && !op.in_place && op.saved_elements == 0 &&
           op.saved_fixed_bytes == 0 && op.saved_input_elements == 0;
  };
  std::size_t end = all;
  while (end > 0 && keeps_nothing(layer.ops[end - 1]))
    --end;
  if (end == 0) return all;
  const ModelOp& last = layer.ops[end - 1];
  const bool keeps_input = last.kind == ModelOpKind::linear && last.split != TensorSplit::column &&
                           last.experts == 0 && last.products == 1 && last.starts_from < 0 &&
                           !last.backward_reads_output;
  if (!keeps_input) return all;
  // Behind frozen weights the last adapter keeps its input and what lies between its products; the
  // product of 4 bits packs what it keeps when it has run (bitsandbytes, autograd/_functions.py,
  // MatMul4Bit).
  const bool packs = layout.compute_dtype == DType::nvfp4;  // its saved tensor, as it runs
  if (packs && !layout.trains_adapters()) return all;
  if (!layout.trains_adapters()) return end - 1;
  const bool adapts = has_adapter(layer, last, layout);
  if (adapts && layout.tensor_parallel > 1) return all;  // its sum over the ranks comes in between
  return adapts || layout.frozen_format != FrozenFormat::as_trained ? end : end - 1;
}

bool ends_in_adapter(const Block& layer, std::size_t end, const Execution& execution,
                     const Layout& layout) {
  return execution.stops_recomputation && end > 0 && end < layer.ops.size() &&
         !layout.lora_magnitudes && has_adapter(layer, layer.ops[end - 1], layout);
}

bool ends_products(const Block& layer, std::size_t op) {
  return layer.ops[op].kind == ModelOpKind::linear &&
         std::none_of(layer.ops.begin() + static_cast<std::ptrdiff_t>(op) + 1, layer.ops.end(),
                      [](const ModelOp& later) { return later.kind == ModelOpKind::linear; });
}

std::vector<std::vector<std::int64_t>> products_run_again(const Block& layer, const Model& model,
                                                          const Layout& layout) {
  std::vector<std::vector<std::int64_t>> again(layer.ops.size());
  const bool whole = keeps_tensors(model.execution, layout);
  const std::size_t end = operators_run_again(layer, model.execution, layout);
  int product = 0;
  for (std::size_t i = 0; i < layer.ops.size(); ++i) {
    const ModelOp& op = layer.ops[i];
    if (op.kind != ModelOpKind::linear) continue;
    // torch._grouped_mm is not among what is saved (torchtitan, distributed/
    // activation_checkpoint.py), nor counted as a product.
    if (op.experts > 0) {
      again[i] = products_of(layer, i, model.attention);
      continue;
    }
    const bool scattered = op.split == TensorSplit::row && layout.tensor_parallel > 1;
    if (whole) {
      const bool last = ends_products(layer, i);
      const bool runs = last ? i < end : ++product % 2 == 0 && !scattered;
      if (runs) again[i].push_back(op.out_features);
      continue;
    }
    const bool kept = scattered || ends_products(layer, i);
    for (const std::int64_t width : products_of(layer, i, model.attention))
      if (++product % 2 == 0 && !kept) again[i].push_back(width);
  }
  return again;
}

std::vector<double> shares_run_again(const Block& layer, const Model& model, const Layout& layout) {
  const std::vector<std::vector<std::int64_t>> products = products_run_again(layer, model, layout);
  std::vector<double> shares(layer.ops.size(), 1.0);
  for (std::size_t i = 0; i < layer.ops.size(); ++i) {
    const ModelOp& op = layer.ops[i];
    if (op.kind == ModelOpKind::attention) shares[i] = 0;
    if (op.kind != ModelOpKind::linear) continue;
    const auto again = std::accumulate(products[i].begin(), products[i].end(), std::int64_t{0});
    shares[i] = static_cast<double>(again) / static_cast<double>(op.out_features);
  }
  return shares;
}

}  // namespace sim
