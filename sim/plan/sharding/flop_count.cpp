#include "sim/plan/sharding/flop_count.hpp"

#include <algorithm>
#include <cmath>

#include "sim/plan/sharding/kept_set.hpp"
#include "sim/plan/sharding/low_rank.hpp"
#include "sim/plan/sharding/sharding.hpp"
#include "sim/plan/sharding/vision.hpp"

namespace sim {
namespace {

struct BlockFlops {  // of one sequence
  double forward = 0;
  double backward = 0;
};

// FLOPs for one sequence: the indexer's scores of all pairs, and attention of each query to the
// keys that it chooses.
double sparse_flops(const TransformerShape& shape, const ModelOp& op, const Layout& layout,
                    bool half) {
  const auto tokens = static_cast<double>(layout.sequence_length);
  const double index = static_cast<double>(shape.sparse.index_heads * shape.sparse.index_dim);
  const double scores = op.reuses_choice ? 0.0 : 2.0 * tokens * tokens * (half ? 0.5 : 1.0) * index;
  const double pairs =
      share_in_window(op.top_keys, layout.sequence_length) * tokens * tokens * (half ? 0.5 : 1.0);
  return scores + 2.0 * pairs * static_cast<double>(shape.heads) *
                      static_cast<double>(shape.head_dim + shape.latent.value_dim);
}

// Tokens that count, of a row in the mean, and those of the sequence of each.
struct CountedTokens {
  double row = 0, attended = 0;
};

// A window that is wider than the sequences cuts nothing off them.
std::int64_t whole(double attended) {
  return std::max<std::int64_t>(1, std::llround(attended));
}

double product_flops(const ModelOp& op, double tokens) {
  return 2.0 * tokens * static_cast<double>(op.in_features) * static_cast<double>(op.out_features);
}

// Frozen weights have a gradient of the input alone; adapters beside them are trained.
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
                    AttentionCount count, const CountedTokens& counted) {
  const double sequence = model.is_layer_list ? 1 : counted.row;
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
    const double seen = op.piece > 0 ? std::min(static_cast<double>(op.piece), counted.attended)
                                     : counted.attended;
    flops.forward =
        2.0 * tokens * seen * share_in_window(op.window, whole(counted.attended)) *
        static_cast<double>(shape.heads * (shape.head_dim + shape.value_dim)) * (half ? 0.5 : 1.0);
    if (op.top_keys > 0) flops.forward = sparse_flops(*model.shape, op, layout, half);
    flops.backward = 2.0 * flops.forward;
  }
  return flops;
}

BlockFlops flops_of(const Model& model, const Block& block, const Layout& layout,
                    AttentionCount count, const CountedTokens& counted) {
  BlockFlops sum;
  for (const ModelOp& op : block.ops) {
    const BlockFlops flops = flops_of(model, block, op, layout, count, counted);
    sum.forward += flops.forward;
    sum.backward += flops.backward;
  }
  return sum;
}

// FLOPs for a sequence of what runs again.
double run_again(const Model& model, const Block& block, const Layout& layout, AttentionCount count,
                 const CountedTokens& counted, bool recomputed = true) {
  const KeptSet kept = kept_set(block, model, layout, recomputed);
  double sum = 0;
  for (const Replay& replay : kept.replays) {
    if (!replay.runs_again()) continue;
    for (const std::uint32_t op : replay.ops)
      sum += kept.share_again(op) *
             flops_of(model, block, block.ops[op], layout, count, counted).forward;
  }
  return sum;
}

// FLOPs of all images of a step.
double vision_flops(const Model& model, const Layout& layout, AttentionCount count,
                    bool with_recomputation) {
  if (!runs_vision(model, layout)) return 0;
  const Model& encoder = model.vision.front();
  const Layout own = vision_layout(model, layout);
  const auto flops_for = [&](const Block& block, std::int64_t tokens, bool trains, bool again) {
    const CountedTokens counted{static_cast<double>(tokens), static_cast<double>(tokens)};
    const BlockFlops flops = flops_of(encoder, block, own, count, counted);
    if (!trains) return flops.forward;
    const double more = with_recomputation && again
                            ? run_again(encoder, block, own, count, counted)
                            : 0;
    return flops.forward + flops.backward + more;
  };
  const bool trains = !layout.freeze_vision_model;
  double sum = flops_for(encoder.input, own.sequence_length, trains, false);
  for (std::size_t i = 0; i < encoder.layers.size(); ++i)
    sum += flops_for(encoder.layers[i], own.sequence_length, trains,
                     recomputes(layout, static_cast<int>(i)));
  sum += flops_for(encoder.output, tokens_of_image(model, layout),
                   !layout.freeze_vision_projection, false);
  return sum * static_cast<double>(own.global_batch);
}

Flops step_flops(const Model& model, const Layout& layout, AttentionCount count,
                 const CountedTokens& counted, bool with_recomputation) {
  double sum = 0;
  for (const Block* block : {&model.input, &model.output}) {
    const BlockFlops flops = flops_of(model, *block, layout, count, counted);
    sum += flops.forward + flops.backward;
    if (with_recomputation) sum += run_again(model, *block, layout, count, counted);
  }
  std::size_t layer = 0;
  for (const int layers : layers_of_chunks(layout, model.layers.size())) {
    for (int i = 0; i < layers; ++i, ++layer) {
      const Block& block = model.layers[layer];
      const BlockFlops flops = flops_of(model, block, layout, count, counted);
      sum += flops.forward + flops.backward;
      // The first layer of a model without an input block has nothing to start again from.
      const bool restarts = layer > 0 || !model.input.ops.empty();
      if (with_recomputation)
        sum += run_again(model, block, layout, count, counted, restarts && recomputes(layout, i));
    }
  }
  return Flops{sum * static_cast<double>(layout.global_batch) +
               vision_flops(model, layout, count, with_recomputation)};
}

CountedTokens tokens_of(const Layout& layout) {
  return {static_cast<double>(layout.sequence_length),
          static_cast<double>(layout.attended_length())};
}

}  // namespace

Flops model_flops(const Model& model, const Layout& layout, AttentionCount count,
                  const BatchLoads* loads) {
  if (!layout.has_lengths()) return step_flops(model, layout, count, tokens_of(layout), false);
  if (loads == nullptr) {
    const BatchLoads made = batch_loads(layout, attention_weight(model));
    return model_flops(model, layout, count, &made);
  }
  return step_flops(model, layout, count, {loads->real_tokens, loads->real_attended}, false);
}

Flops hardware_flops(const Model& model, const Layout& layout, AttentionCount count,
                     const BatchLoads* loads) {
  if (!layout.has_lengths()) return step_flops(model, layout, count, tokens_of(layout), true);
  if (loads == nullptr) {
    const BatchLoads made = batch_loads(layout, attention_weight(model));
    return hardware_flops(model, layout, count, &made);
  }
  return step_flops(model, layout, count, {loads->tokens, loads->attended}, true);
}

double attention_weight(const Model& model) {
  const AttentionShape& shape = model.attention;
  double layers = 0;
  for (const Block& layer : model.layers)
    for (const ModelOp& op : layer.ops)
      layers += op.kind == ModelOpKind::attention ? 1 : 0;
  const auto widths = static_cast<double>(shape.heads * (shape.head_dim + shape.value_dim));
  return layers * widths * (shape.causal ? 0.5 : 1.0) /
         static_cast<double>(std::max<std::int64_t>(1, model.active_parameters()));
}

}  // namespace sim
