#include "sim/plan/sharding/flop_count.hpp"

#include "sim/plan/sharding/low_rank.hpp"
#include "sim/plan/sharding/selective_operators.hpp"
#include "sim/plan/sharding/sharding.hpp"

namespace sim {
namespace {

struct BlockFlops {  // of one sequence
  double forward = 0;
  double backward = 0;
  double attention = 0;  // the part of `forward` that is the attention core
};

// Of a sequence: the indexer's scores of all pairs, and attention of each query to what it chooses.
double sparse_flops(const TransformerShape& shape, const ModelOp& op, const Layout& layout,
                    bool half) {
  const auto tokens = static_cast<double>(layout.sequence_length);
  const double scores = 2.0 * tokens * tokens * (half ? 0.5 : 1.0) *
                        static_cast<double>(shape.sparse.index_heads * shape.sparse.index_dim);
  const double pairs =
      share_in_window(op.top_keys, layout.sequence_length) * tokens * tokens * (half ? 0.5 : 1.0);
  return scores + 2.0 * pairs * static_cast<double>(shape.heads) *
                      static_cast<double>(shape.head_dim + shape.latent.value_dim);
}

double product_flops(const ModelOp& op, double tokens) {
  return 2.0 * tokens * static_cast<double>(op.in_features) * static_cast<double>(op.out_features);
}

// Of frozen weights the gradient of the input alone, and adapters beside them.
void train_adapters(const Model& model, const Block& block, const ModelOp& op, const Layout& layout,
                    double tokens, BlockFlops& flops) {
  if (!layout.trains_adapters()) return;
  flops.backward = flops.forward;
  const double adapter =
      2.0 * tokens * static_cast<double>(adapter_parameters(model, block, op, layout));
  flops.forward += adapter;
  flops.backward += 2.0 * adapter;
}

BlockFlops flops_of(const Model& model, const Block& block, const ModelOp& op, const Layout& layout,
                    AttentionCount count) {
  const auto sequence = static_cast<double>(model.is_layer_list ? 1 : layout.sequence_length);
  const double tokens = (op.once_per_sequence ? 1.0 : sequence) * static_cast<double>(op.per_token);
  BlockFlops flops{op.model_flops.count() * tokens, 2 * op.model_flops.count() * tokens};
  if (op.kind == ModelOpKind::generic) {
    flops = {op.forward_flops.count() * tokens, op.backward_flops.count() * tokens};
  } else if (is_product(op)) {
    flops.forward = product_flops(op, tokens);
    flops.backward = 2.0 * flops.forward;
    train_adapters(model, block, op, layout, tokens, flops);
  } else if (op.kind == ModelOpKind::attention) {
    const AttentionShape& shape = model.attention;
    const bool half = shape.causal && count == AttentionCount::causal_half;
    const std::int64_t seen = layout.attended_length();
    flops.forward = 2.0 * tokens * static_cast<double>(seen) * share_in_window(op.window, seen) *
                    static_cast<double>(shape.heads * (shape.head_dim + shape.value_dim)) *
                    (half ? 0.5 : 1.0);
    if (op.top_keys > 0) flops.forward = sparse_flops(*model.shape, op, layout, half);
    flops.backward = 2.0 * flops.forward;
    flops.attention = flops.forward;
  }
  return flops;
}

BlockFlops flops_of(const Model& model, const Block& block, const Layout& layout,
                    AttentionCount count) {
  BlockFlops sum;
  for (const ModelOp& op : block.ops) {
    const BlockFlops flops = flops_of(model, block, op, layout, count);
    sum.forward += flops.forward;
    sum.backward += flops.backward;
    sum.attention += flops.attention;
  }
  return sum;
}

double run_again(const Model& model, const Block& layer, const Layout& layout) {
  const std::vector<double> shares = shares_run_again(layer, model, layout);
  double sum = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const ModelOp& op = layer.ops[i];
    if (op.kind == ModelOpKind::linear)
      sum += shares[i] * product_flops(op, static_cast<double>(layout.sequence_length));
  }
  return sum;
}

// Of the product at which a full recomputation ends, for a sequence.
double not_run_again(const Model& model, const Block& layer, const Layout& layout) {
  const std::size_t end = operators_run_again(layer, model.execution, layout);
  if (end == layer.ops.size() || layer.ops[end].kind != ModelOpKind::linear) return 0;
  return product_flops(layer.ops[end], static_cast<double>(layout.sequence_length));
}

double modules_again(const Model& model, const Block& layer, const Layout& layout,
                     AttentionCount count) {
  const RecomputedModules again = recomputed_modules(layer, layout);
  double sum = 0;
  for (const RecomputedModule& module : again.modules)
    for (const std::uint32_t op : module.ops)
      sum += flops_of(model, layer, layer.ops[op], layout, count).forward;
  return sum;
}

double recomputed(const Model& model, const Block& layer, const BlockFlops& flops,
                  const Layout& layout, AttentionCount count, int index_in_chunk) {
  if (layout.recompute == Recompute::full) {
    const bool again = index_in_chunk % layout.recompute_every == 0;
    return again ? flops.forward - not_run_again(model, layer, layout) : 0.0;
  }
  if (layout.recompute != Recompute::selective) return 0;
  if (layout.recompute_modules.empty()) return is_flash(layout.attention) ? 0.0 : flops.attention;
  return modules_again(model, layer, layout, count);
}

Flops step_flops(const Model& model, const Layout& layout, AttentionCount count,
                 bool with_recomputation) {
  double sum = 0;
  for (const Block* block : {&model.input, &model.output}) {
    const BlockFlops flops = flops_of(model, *block, layout, count);
    sum += flops.forward + flops.backward;
  }
  std::size_t layer = 0;
  for (const int layers : layers_of_chunks(layout, model.layers.size())) {
    for (int i = 0; i < layers; ++i, ++layer) {
      const BlockFlops flops = flops_of(model, model.layers[layer], layout, count);
      sum += flops.forward + flops.backward;
      // The first layer of a model without an input block has nothing to start again from.
      const bool restarts = layer > 0 || !model.input.ops.empty();
      if (!with_recomputation || !restarts) continue;
      sum += layout.recompute == Recompute::operators
                 ? run_again(model, model.layers[layer], layout)
                 : recomputed(model, model.layers[layer], flops, layout, count, i);
    }
  }
  return Flops{sum * static_cast<double>(layout.global_batch)};
}

}  // namespace

Flops model_flops(const Model& model, const Layout& layout, AttentionCount count) {
  return step_flops(model, layout, count, false);
}

Flops hardware_flops(const Model& model, const Layout& layout, AttentionCount count) {
  return step_flops(model, layout, count, true);
}

}  // namespace sim
