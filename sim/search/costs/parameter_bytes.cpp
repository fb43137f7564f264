#include "sim/search/costs/parameter_bytes.hpp"

#include <algorithm>
#include <cmath>

#include "sim/layout/optimizer_states.hpp"
#include "sim/plan/lowering/gradients_leave.hpp"
#include "sim/plan/sharding/sharding.hpp"
#include "sim/search/costs/block_costs.hpp"

namespace sim {
namespace {

// The sharding of the parameters: the ZeRO stage, 0 where nobody is there to share with.
struct SharedCounts {
  int zero = 0;
  std::int64_t all = 0, shard = 0;  // elements
  std::int64_t updated() const { return zero > 0 ? shard : all; }
};

SharedCounts shared_counts(const Layout& layout, const ParameterCounts& counts) {
  const bool experts = counts.expert_parameters > 0;
  const std::int64_t shards = layout.shard_ranks();
  const std::int64_t expert_shards = experts ? layout.expert_shards() : 1;
  const bool shares = shards > 1 || (experts && std::max(1, layout.expert_replicas()) > 1);
  return {.zero = shares ? layout.zero_stage : 0,
          .all = counts.parameters + counts.expert_parameters,
          .shard = counts.parameters / shards + counts.expert_parameters / expert_shards};
}

// Bytes of an element that a rank updates. A bound: of moments in blocks whole bytes, without the
// scales.
std::int64_t state_bytes(const Layout& layout) {
  const std::int64_t moments = layout.state_format == StateFormat::plain
                                   ? layout.moment_bytes()
                                   : moment_bytes(layout, least_in_blocks) / least_in_blocks;
  return layout.master_bytes() + moments;
}

// States that are on the host instead, rounded up. Masters may stay beside their copy.
std::int64_t moved_states(const Model& model, const Layout& layout, std::int64_t elements) {
  if (!layout.offloads()) return 0;
  const std::int64_t stays = model.execution.offload_keeps_masters ? layout.master_bytes() : 0;
  return static_cast<std::int64_t>(std::ceil(
      layout.offload_fraction * static_cast<double>(elements * (state_bytes(layout) - stays))));
}

// Frozen weights have no gradient and no state; ZeRO-3 shards them, those of experts over fewer
// ranks.
std::int64_t frozen_share(const Layout& layout, const SharedCounts& elements, std::int64_t bytes) {
  if (bytes == 0 || layout.offloads_parameters()) return 0;
  return elements.zero < 3
             ? bytes
             : bytes / std::max<std::int64_t>(layout.shard_ranks(), layout.expert_shards());
}

}  // namespace

bool gathers_weights(const Layout& layout, const ParameterCounts& counts) {
  const bool of_experts = counts.expert_parameters == 0 || layout.expert_shards() > 1;
  return layout.zero_stage == 3 && layout.shard_ranks() > 1 && of_experts;
}

std::int64_t parameter_bytes(const Model& model, const Layout& layout,
                             const ParameterCounts& counts) {
  const SharedCounts elements = shared_counts(layout, counts);
  const bool leave = lowering::gradients_leave(layout, model.execution);
  const std::int64_t weight = layout.offloads_parameters() ? 0 : bytes_of(weights_of(layout));
  const std::int64_t gradient = leave ? 0 : bytes_of(layout.gradient_dtype);
  const std::int64_t optimizer = layout.updates_on_servers() ? 0 : state_bytes(layout);
  std::int64_t whole = 0;  // bytes per element that every rank holds
  if (elements.zero < 3) whole += weight;
  if (elements.zero < 2) whole += gradient;
  if (elements.zero < 1) whole += optimizer;
  const std::int64_t shared = weight + gradient + optimizer - whole;
  return elements.all * whole + elements.shard * shared +
         frozen_share(layout, elements, counts.frozen_bytes) -
         moved_states(model, layout, elements.updated());
}

std::int64_t host_parameter_bytes(const Model& model, const Layout& layout,
                                  const ParameterCounts& counts) {
  if (!layout.offloads() || layout.offload_fraction < 1) return 0;
  std::int64_t each = bytes_of(summed_gradient_dtype(model, layout));
  if (layout.offload_optimizer == OffloadTarget::cpu) each += state_bytes(layout);
  if (layout.offload_parameters != OffloadTarget::nvme) each += bytes_of(layout.activation_dtype);
  return shared_counts(layout, counts).updated() * each;
}

}  // namespace sim
