#include "sim/search/plain_layouts.hpp"

#include "sim/plan/grid.hpp"
#include "sim/schedule/schedule.hpp"

namespace sim {

namespace {

// Formats of messages between shards.
bool shards_compressed(const Layout& layout) {
  return layout.compression == GradientCompression::int8 ||
         layout.compression == GradientCompression::int4 || layout.quantized_weights ||
         layout.secondary_shard;
}

}  // namespace

int least_zero_stage(const Layout& layout) {
  if (layout.offloads_parameters() || shards_compressed(layout)) return 3;
  return layout.trains_apart() && layout.local_ranks > 1 ? 1 : 0;
}

void reduce_plainly(Layout& layout) {
  const Layout usual;
  layout.compression = usual.compression;
  layout.compression_density = usual.compression_density;
  layout.compression_rank = usual.compression_rank;
  layout.quantized_weights = layout.secondary_shard = false;
  layout.node_ranks = 0;
  layout.local_steps = usual.local_steps;
  layout.local_ranks = usual.local_ranks;
  layout.outer = usual.outer;
  layout.outer_rate = usual.outer_rate;
  layout.outer_momentum = usual.outer_momentum;
  layout.outer_dtype = usual.outer_dtype;
  layout.outer_fragments = usual.outer_fragments;
  layout.outer_overlap = usual.outer_overlap;
  layout.outer_mix = usual.outer_mix;
  layout.outer_quantization = usual.outer_quantization;
  layout.outer_on_host = usual.outer_on_host;
  layout.servers = usual.servers;
  layout.server_place = usual.server_place;
  layout.server_machines = usual.server_machines;
  layout.staleness = usual.staleness;
  layout.server_partition = usual.server_partition;
}

void take_shortest_sequences(Layout& layout) {
  if (!layout.has_lengths()) return;
  const Layout usual;
  layout.packing_lengths = usual.packing_lengths;
  layout.packing_mean = layout.packing_sigma = 0;
  layout.packing = usual.packing;
  layout.packing_multiple = usual.packing_multiple;
  layout.packing_seed = usual.packing_seed;
  layout.packed_length = layout.context_parallel > 1 ? 2 * layout.context_parallel : 1;
}

std::vector<GpuId> lane_group(const Layout& layout, GroupRole role, int stage) {
  std::vector<GpuId> members;
  for (const RankId rank : group_members(layout, role, {.pipeline = stage}))
    members.push_back({rank.value});
  return members;
}

Layout block_layout(const SearchSpecification& specification, const Pipeline& pipeline,
                    Recompute recompute) {
  const bool split = splits_backward(pipeline.schedule);
  Layout layout = layout_of(specification, pipeline);
  layout.pipeline_parallel = layout.data_parallel = layout.virtual_stages = 1;
  layout.schedule = split ? Schedule::zb_h1 : Schedule::one_f_one_b;
  layout.replica_batches.clear();
  layout.global_batch = 3 * layout.micro_batch;
  layout.recompute = recompute;
  layout.recompute_every = 1;
  layout.recompute_layers = 0;
  if (recompute != Recompute::selective) layout.recompute_modules.clear();
  if (least_zero_stage(layout) > 0) layout.zero_stage = 0;
  offload(pipeline.moves_activations() ? OffloadParts::activations : OffloadParts::none, layout);
  reduce_plainly(layout);
  take_shortest_sequences(layout);
  layout.overlap_expert_exchange = layout.delay_weight_gradients = false;
  return layout;
}

}  // namespace sim
