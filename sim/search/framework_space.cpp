#include "sim/search/framework_space.hpp"

#include <algorithm>

#include "sim/layout/rank_order.hpp"

namespace sim {
namespace {

template <class Value>
bool has(const std::vector<Value>& values, Value value) {
  return std::ranges::find(values, value) != values.end();
}

// Megatron-LM: ZeRO-1 is its distributed optimizer, 2 and 3 are Megatron-FSDP's strategies.
const FrameworkSpace megatron{
    .zero_stages = {0, 1, 2, 3},
    .schedules = {Schedule::one_f_one_b, Schedule::interleaved},
    .recomputes = {Recompute::none, Recompute::selective, Recompute::full},
    .swaps_stages = true};
// torchtitan: DDP or FSDP2; its selective recomputation is of every n-th layer, or by operators.
const FrameworkSpace torchtitan{
    .zero_stages = {0, 3},
    .schedules = {Schedule::one_f_one_b, Schedule::gpipe, Schedule::interleaved,
                  Schedule::interleaved_zb, Schedule::zb_v, Schedule::dual_pipe_v},
    .recomputes = {Recompute::none, Recompute::operators, Recompute::full},
    .recomputes_each_nth = true};
// PyTorch's FSDP: the weights are sharded, or all replicas have them (DDP).
const FrameworkSpace fully_sharded{
    .zero_stages = {0, 3},
    .schedules = {Schedule::one_f_one_b, Schedule::gpipe, Schedule::interleaved,
                  Schedule::interleaved_zb, Schedule::zb_v, Schedule::dual_pipe_v},
    .recomputes = {Recompute::none, Recompute::selective, Recompute::full},
    .recomputes_each_nth = true,
    .swaps_stages = true};
const FrameworkSpace deepspeed{
    .zero_stages = {0, 1, 2, 3},
    .schedules = {Schedule::one_f_one_b},
    .recomputes = {Recompute::none, Recompute::selective, Recompute::full},
    .shares_sequences = false};
const FrameworkSpace megatron_deepspeed{
    .zero_stages = {0, 1, 2, 3},
    .schedules = {Schedule::one_f_one_b, Schedule::zb_h1},
    .recomputes = {Recompute::none, Recompute::selective, Recompute::full},
    .shares_sequences = false};

bool is_of_torchtitan(PresetName framework) {
  return framework == PresetName::torchtitan;
}

bool is_of_deepspeed(PresetName framework) {
  return framework == PresetName::deepspeed || framework == PresetName::megatron_deepspeed;
}

// The order of the ranks without the dimensions of one rank.
bool is_in_order(const Layout& layout, bool stages_before_replicas) {
  std::vector<Dimension> order{Dimension::tensor, Dimension::context, Dimension::data,
                               Dimension::pipeline};
  if (stages_before_replicas) std::swap(order[2], order[3]);
  return wide_dimensions(layout, layout.placement) == wide_dimensions(layout, order);
}

// Checkpoints alone go to the host (DeepSpeed), and whole layers without a pipeline (Megatron-LM).
bool deepspeed_offloads(const Layout& layout) {
  if (layout.offloads_activations() &&
      (layout.recompute != Recompute::full || layout.offload_layers > 0))
    return false;
  if (!layout.offloads()) return true;
  return layout.zero_stage == 3 ||
         (layout.zero_stage > 0 && !layout.uses_disk() && layout.offload_fraction == 1);
}

bool megatron_offloads(const Layout& layout) {
  if (layout.offloads_parameters() || layout.uses_disk()) return false;
  if (layout.offloads() && layout.zero_stage == 0) return false;
  if (!layout.offloads_activations()) return true;
  if (!layout.offload_modules.empty()) return layout.offload_layers == 0;
  return layout.pipeline_parallel == 1 && layout.recompute == Recompute::none;
}

}  // namespace

const FrameworkSpace* space_of(PresetName framework) {
  switch (framework) {
    case PresetName::megatron:
    case PresetName::megatron_bridge:
    case PresetName::nemo:
      return &megatron;
    case PresetName::torchtitan:
      return &torchtitan;
    case PresetName::fsdp1:
    case PresetName::fsdp2:
    case PresetName::olmo_core:
    case PresetName::torchtune:
      return &fully_sharded;
    case PresetName::deepspeed:
      return &deepspeed;
    case PresetName::megatron_deepspeed:
      return &megatron_deepspeed;
    case PresetName::pytorch:
    case PresetName::transformers:
    case PresetName::scaling:
    case PresetName::internevo:
    case PresetName::nanotron:
      break;
  }
  return nullptr;
}

bool splits_unevenly(PresetName framework) {
  const FrameworkSpace* space = space_of(framework);
  return space == nullptr || space == &megatron || space == &torchtitan;
}

bool runs_pipeline(PresetName framework, const Layout& layout) {
  const FrameworkSpace* space = space_of(framework);
  if (space == nullptr) return true;
  if (layout.pipeline_parallel > 1 && !has(space->schedules, layout.schedule)) return false;
  if (!has(space->recomputes, layout.recompute)) return false;
  if (layout.recompute == Recompute::full && layout.recompute_every > 1 &&
      !space->recomputes_each_nth)
    return false;
  if (layout.context_parallel > 1 && !space->shares_sequences) return false;
  if (space == &megatron)  // an interleaved schedule of two stages overlaps its messages
    return layout.virtual_stages == 1 || layout.overlap_pipeline || layout.pipeline_parallel > 2;
  // torch.distributed.pipelining's 1F1B asks for a micro-batch for each stage (schedules.py,
  // Schedule1F1B).
  if ((is_of_torchtitan(framework) || space == &fully_sharded) && layout.pipeline_parallel > 1 &&
      layout.schedule == Schedule::one_f_one_b && layout.run_batches() < layout.pipeline_parallel)
    return false;
  if (!is_of_torchtitan(framework)) return true;
  if (layout.tensor_parallel > 1 && !layout.sequence_parallel) return false;
  if (layout.context_parallel > 1 && layout.head_ranks() > 1) return false;
  const int split = layout.expert_tensor();
  return split == layout.tensor_parallel || (layout.expert_parallel > 1 && split == 1);
}

bool runs_offload(PresetName framework, const Layout& layout) {
  const FrameworkSpace* space = space_of(framework);
  if (space == nullptr || !layout.uses_host()) return true;
  if (layout.offload_delay) return false;
  if (is_of_deepspeed(framework)) return deepspeed_offloads(layout);
  if (space == &megatron) return megatron_offloads(layout);
  // FSDP has both on the host's memory, or neither.
  return layout.offloads_parameters() && layout.offloads() && !layout.uses_disk() &&
         !layout.offloads_activations();
}

bool runs_sharding(PresetName framework, const Layout& layout) {
  const FrameworkSpace* space = space_of(framework);
  if (space == nullptr) return true;
  if (!has(space->zero_stages, layout.zero_stage)) return false;
  if (!is_in_order(layout, false) && !(space->swaps_stages && is_in_order(layout, true)))
    return false;
  const bool groups = layout.shard_ranks() < layout.replicas();
  if (is_of_deepspeed(framework))
    return (layout.zero_stage <= 1 || layout.pipeline_parallel == 1) &&
           (!groups || layout.zero_stage == 3);
  if (!is_of_torchtitan(framework)) return true;
  // DDP goes alone; FSDP shards over whole groups of context ranks.
  if (layout.zero_stage == 0 && layout.replicas() > 1)
    return layout.world_size() == layout.data_parallel;
  return layout.zero_stage == 0 || layout.shard_ranks() % layout.context_parallel == 0;
}

}  // namespace sim
