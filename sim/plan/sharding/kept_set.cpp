#include "sim/plan/sharding/kept_set.hpp"

#include <numeric>

#include "sim/plan/sharding/low_rank.hpp"

namespace sim {
namespace {

bool is_layer(const Block& block, const Model& model) {
  return &block != &model.input && &block != &model.output;
}

bool is_loss(const ModelOp& op) {
  return op.kind == ModelOpKind::cross_entropy;
}

// Behind frozen weights the last adapter keeps its input and what lies between its products; the
// product of 4 bits packs what it keeps when it has run (bitsandbytes, autograd/_functions.py,
// MatMul4Bit). `end`: behind the last product.
std::size_t end_with_adapters(const Block& layer, std::size_t end, const Layout& layout) {
  const ModelOp& last = layer.ops[end - 1];
  const bool adapts = has_adapter(layer, last, layout);
  if (adapts && layout.tensor_parallel > 1)
    return layer.ops.size();  // its sum over the ranks comes in between
  return adapts || layout.frozen_format != FrozenFormat::as_trained ? end : end - 1;
}

std::size_t operators_run_again(const Block& layer, const Execution& execution,
                                const Layout& layout) {
  const std::size_t all = layer.ops.size();
  const bool stops = layout.recompute == Recompute::full && execution.stops_recomputation;
  if (!stops && !keeps_tensors(execution, layout)) return all;
  const auto keeps_nothing = [](const ModelOp& op) {
    return op.kind == ModelOpKind::elementwise && !op.in_place && op.saved_elements == 0 &&
           op.saved_fixed_bytes == 0 && op.saved_input_elements == 0;
  };
  std::size_t end = all;
  while (end > 0 && keeps_nothing(layer.ops[end - 1]))
    --end;
  if (end == 0) return all;
  // What is kept of an MLP in pieces is packed when all of them have run.
  if (layout.mlp_tiles > 1 && !mlp_of(layer).empty() && mlp_of(layer).back() + 1 == end) return end;
  const ModelOp& last = layer.ops[end - 1];
  const bool keeps_input = last.kind == ModelOpKind::linear && last.split != TensorSplit::column &&
                           last.experts == 0 && last.products == 1 && last.starts_from < 0 &&
                           !last.backward_reads_output;
  if (!keeps_input) return all;
  if (layout.trains_adapters()) return end_with_adapters(layer, end, layout);
  return layout.compute_dtype == DType::nvfp4 ? all : end - 1;  // its saved tensor, as it runs
}

bool ends_in_adapter(const Block& layer, std::size_t end, const Execution& execution,
                     const Layout& layout) {
  return execution.stops_recomputation && end > 0 && end < layer.ops.size() &&
         !layout.lora_magnitudes && layout.mlp_tiles == 1 &&
         has_adapter(layer, layer.ops[end - 1], layout);
}

// Selective recomputation (Korthikanti et al. 2022, section 5): the attention core of an unfused
// kernel is run again from the saved Q, K and V. A flash kernel has no core to drop.
KeptSet keep_all_but_cores(const Block& block, const Layout& layout) {
  KeptSet kept;
  if (is_flash(layout.attention)) return kept;
  kept.replay_of.assign(block.ops.size(), KeptSet::none);
  kept.input_from = kept.replay_of;
  for (std::uint32_t i = 0; i < block.ops.size(); ++i) {
    if (block.ops[i].kind != ModelOpKind::attention) continue;
    kept.replay_of[i] = static_cast<int>(kept.replays.size());
    kept.replays.push_back({.ops = {i}, .before = i, .keeps_inside = true, .makes_core = true});
  }
  return kept;
}

KeptSet by_recomputation(const Block& block, const Model& model, const Layout& layout) {
  const bool layer = is_layer(block, model);
  const bool head = &block == &model.output && model.execution.recomputes_head;
  switch (layout.recompute) {
    case Recompute::none:
      break;
    case Recompute::full:
      if (!block.ops.empty() && (layer || head)) return keep_input(block, model, layout);
      break;
    case Recompute::operators:
      if (!block.ops.empty() && layer) {
        KeptSet kept = keep_input(block, model, layout);
        kept.outputs = listed_outputs(block, model, layout, kept.replays.front().ops.size());
        return kept;
      }
      break;
    case Recompute::selective:
      return layout.recompute_modules.empty() ? keep_all_but_cores(block, layout)
                                              : keep_modules_inputs(block, layout);
  }
  return {};
}

}  // namespace

// The loss is not recomputed: what stands before it is, behind its backward pass.
KeptSet keep_input(const Block& block, const Model& model, const Layout& layout) {
  const auto last = static_cast<std::uint32_t>(block.ops.size() - 1);
  const auto loss = std::find_if(block.ops.begin(), block.ops.end(), is_loss);
  Replay all{.before = is_loss(block.ops.back()) ? last - 1 : last, .is_block = true};
  auto end = static_cast<std::size_t>(loss - block.ops.begin());
  if (is_layer(block, model)) {
    end = operators_run_again(block, model.execution, layout);
    all.ends_in_adapter = ends_in_adapter(block, end, model.execution, layout);
  }
  all.ops.resize(end);
  std::iota(all.ops.begin(), all.ops.end(), 0);
  KeptSet kept;
  kept.replays.push_back(std::move(all));
  kept.replay_of.assign(block.ops.size(), 0);
  kept.input_from.assign(block.ops.size(), KeptSet::none);
  return kept;
}

KeptSet kept_set(const Block& block, const Model& model, const Layout& layout, bool recomputes) {
  KeptSet kept;
  if (recomputes) kept = by_recomputation(block, model, layout);
  if (layout.mlp_tiles > 1 && is_layer(block, model)) run_mlp_in_pieces(block, layout, kept);
  if (layout.loss_chunks > 1 && &block == &model.output)
    run_loss_in_chunks(block, model, layout, kept);
  return kept;
}

}  // namespace sim
