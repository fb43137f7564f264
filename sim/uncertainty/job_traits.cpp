#include "sim/uncertainty/job_traits.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/topology/unvalidated.hpp"

namespace sim {

JobTraits traits_of(const Model& model, FrameworkName framework, const Layout& layout,
                    const Cluster& cluster) {
  const int gpus = layout.world_size();
  const int per_node = std::min(gpus, cluster.gpus_per_node());
  return {.job = fmt::format("{}, {}, {}", model.name, cluster.device().name,
                             word(layout.compute_dtype)),
          .framework = framework,
          .generation = cluster.device().generation,
          .dtype = layout.compute_dtype,
          .schedule = layout.schedule,
          .pipelined = layout.pipeline_parallel > 1,
          .experts = model.has_experts(),
          .gpus = gpus,
          .nodes = (gpus + per_node - 1) / per_node,
          .shares = {},
          .memory_use = 0,
          .validated = unvalidated(cluster).empty()};
}

}  // namespace sim
