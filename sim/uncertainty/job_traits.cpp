#include "sim/uncertainty/job_traits.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/rounding.hpp"
#include "sim/layout/layout_text.hpp"
#include "sim/topology/unvalidated.hpp"

namespace sim {
namespace {

// Features of a rank in the narrowest of the measured runs with such scales: the Llama 3 8B of
// validation/published/torchao and torchtitan_h200, without tensor parallelism.
constexpr std::int64_t least_measured_row_scales = 4096;

}  // namespace

std::string job_name(const Model& model, const Layout& layout, const Cluster& cluster) {
  return fmt::format("{}, {}, {}", model.name, cluster.device().name, word(layout.compute_dtype));
}

JobTraits traits_of(const Model& model, FrameworkName framework, const Layout& layout,
                    const Cluster& cluster, const StepShares& shares) {
  const int gpus = layout.world_size();
  const int per_node = std::min(gpus, cluster.gpus_per_node());
  return {.job = job_name(model, layout, cluster),
          .layout = replica_text(layout),
          .framework = framework,
          .generation = cluster.device().generation,
          .dtype = layout.compute_dtype,
          .schedule = layout.schedule,
          .pipelined = layout.pipeline_parallel > 1,
          .experts = model.has_experts(),
          .tensor = layout.tensor_parallel > 1,
          .context = layout.context_parallel > 1,
          .zero_3 = layout.zero_stage >= 3 && layout.replicas() > 1,
          .lengths = layout.has_lengths(),
          .expert_adapters = layout.expert_adapters != ExpertAdapters::none,
          .mixed_nodes = cluster.pools() > 1,
          .uneven_replicas = !layout.replica_batches.empty(),
          .messages_ahead =
              layout.pipeline_parallel > 1 && layout.overlap_pipeline &&
              (layout.schedule == Schedule::one_f_one_b || layout.schedule == Schedule::gpipe),
          .narrow_row_scales = layout.compute_dtype == DType::fp8 &&
                               scales_rows(model.execution.eight_bit) &&
                               model.hidden / layout.tensor_parallel < least_measured_row_scales,
          .gpus = gpus,
          .nodes = divide_up(gpus, per_node),
          .shares = shares,
          .validated = unvalidated(cluster).empty()};
}

}  // namespace sim
