#include "real/engine/scratch.hpp"

#include <algorithm>
#include <cmath>

#include "real/engine/data/tokens.hpp"
#include "real/engine/keys_exchange.hpp"
#include "real/engine/op_shapes.hpp"
#include "sim/memory/arena.hpp"

namespace real {

ScratchLayout scratch_layout(const ScratchNeeds& needs) {
  ScratchLayout layout;
  const auto take = [&](std::int64_t bytes) {
    const std::int64_t at = layout.bytes;
    const std::int64_t unit = sim::arena_alignment;
    layout.bytes += (bytes + unit - 1) / unit * unit;
    return at;
  };
  constexpr auto id_bytes = static_cast<std::int64_t>(sizeof(std::int32_t));
  layout.upload = take(static_cast<std::int64_t>(sizeof(kernels::AdamStep)));
  layout.ids = take(needs.ids * id_bytes);
  layout.upload_bytes = layout.ids - layout.upload + needs.ids * id_bytes;
  layout.results = take(static_cast<std::int64_t>(sizeof(StepResults)));
  layout.rotary_table = take(needs.rotary_table);
  for (const std::int64_t ranges : needs.decay) {
    layout.decay.push_back(take(ranges * static_cast<std::int64_t>(sizeof(kernels::Range))));
  }
  for (std::size_t s = 0; s < needs.workspaces.size(); ++s) {
    layout.workspaces[s] = take(needs.workspaces[s]);
  }
  layout.gemm_workspace = take(needs.gemm_workspace);
  layout.rotary_keys = take(needs.rotary_keys);
  layout.rotary_keys_gradient = take(needs.rotary_keys);
  layout.joined_gradient = take(needs.joined_keys);
  for (std::size_t i = 0; i < coded_slots; ++i)
    layout.coded[i] = take(needs.coded.slots[i]);
  layout.scales = take(needs.coded.scales);
  layout.scale_bytes = needs.coded.scales;
  return layout;
}

ScratchLayout scratch_layout(const BoundProgram& program, const kernels::Table& kernels,
                             Attentions attentions, std::int64_t gemm_workspace) {
  const OpShapes shapes{program};
  const sim::Layout& layout = program.plan->layout;
  const TokenRows rows = token_rows(layout);
  ScratchNeeds needs{.ids = layout.batches_of(program.at.data) * layout.micro_batch *
                            rows.of_sequence * rows.width(),
                     .gemm_workspace = gemm_workspace};
  for (const BoundOp& op : program.ops) {
    if (op.transfer != nullptr) continue;
    auto& bytes = needs.workspaces[static_cast<std::size_t>(op.stream)];
    bytes =
        std::max(bytes, op.collective != nullptr ? packed_bytes(program, op)
                                                 : shapes.workspace_of(op, kernels, attentions));
    if (const std::int64_t turned = shapes.turned(op); turned > 0)
      needs.rotary_table = kernels.rotary_table_bytes(layout.sequence_length, turned);
  }
  if (program.model->has_latent_attention()) {
    const kernels::SplitRows rows_of_keys = shapes.latent_rows();
    const std::int64_t size = rows_of_keys.rows * sim::bytes_of(rows_of_keys.dtype);
    needs.rotary_keys = rows_of_keys.second * size;
    needs.joined_keys = (rows_of_keys.first + rows_of_keys.second) * size;
  }
  needs.coded = coded_needs(program);
  for (const BoundBucket& bucket : program.buckets)
    needs.decay.push_back(std::ssize(bucket.decayed));
  return scratch_layout(needs);
}

StepMemory step_memory(const ScratchLayout& layout, const BoundProgram& program, std::byte* start) {
  StepMemory memory;
  memory.adam = reinterpret_cast<kernels::AdamStep*>(start + layout.upload);
  memory.ids = reinterpret_cast<std::int32_t*>(start + layout.ids);
  auto* results = reinterpret_cast<StepResults*>(start + layout.results);
  memory.loss = &results->loss;
  memory.square_sum = &results->square_sum;
  memory.norm = &results->norm;
  memory.clip_scale = &results->clip_scale;
  memory.gate = memory.norm;
  memory.first_not_finite = &results->first_not_finite;
  memory.rotary_table = reinterpret_cast<float*>(start + layout.rotary_table);
  for (std::size_t i = 0; i < program.buckets.size(); ++i) {
    memory.decay.push_back(
        {.ranges = reinterpret_cast<const kernels::Range*>(start + layout.decay[i]),
         .count = std::ssize(program.buckets[i].decayed)});
  }
  const auto streams = static_cast<std::size_t>(sim::stream_count);
  for (std::size_t s = 0; s < streams; ++s) {
    const std::int64_t end = s + 1 < streams ? layout.workspaces[s + 1] : layout.gemm_workspace;
    memory.workspaces[s] = {.memory = start + layout.workspaces[s],
                            .bytes = end - layout.workspaces[s]};
  }
  memory.latent = {.rotary_keys = start + layout.rotary_keys,
                   .rotary_keys_gradient = start + layout.rotary_keys_gradient,
                   .joined_gradient = start + layout.joined_gradient};
  memory.coded = coded_memory(program, start + layout.scales, layout.scale_bytes);
  for (std::size_t i = 0; i < coded_slots; ++i)
    memory.coded.slots[i] = reinterpret_cast<std::uint8_t*>(start + layout.coded[i]);
  return memory;
}

kernels::AdamStep adam_step(const sim::Training& training, std::int64_t step) {
  const auto age = static_cast<double>(step + 1);
  return {.rate = training.learning_rate.at(step),
          .correction1 = 1 - std::pow(training.beta1, age),
          .correction2 = 1 - std::pow(training.beta2, age),
          .number = step};
}

std::vector<kernels::Range> decay_ranges(const BoundBucket& bucket) {
  std::vector<kernels::Range> ranges;
  for (const OwnedRange& range : bucket.decayed)
    ranges.push_back({.at = range.first, .elements = range.count});
  return ranges;
}

}  // namespace real
