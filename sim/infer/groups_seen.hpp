// The purpose of a trace's communicators, by how frameworks name them and what they carry.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/explain/steps.hpp"
#include "sim/trace/traced_run.hpp"

namespace sim {

enum class GroupUse : std::uint8_t { unknown, tensor, context, expert, pipeline, data };

// The use that the name or the description of a group tells: Megatron-LM's
// (TENSOR_MODEL_PARALLEL_GROUP), PyTorch's device meshes (mesh_tp, mesh_dp_shard).
GroupUse use_of(const TracedGroup& group);

// The size of the groups of a use; empty: none is named so.
std::optional<int> size_of_use(const TracedRun& run, GroupUse use);

// Collectives of a rank in one step, by kind, in groups that are not of layers' insides.
struct DataTraffic {
  std::int64_t all_reduces = 0, all_gathers = 0, reduce_scatters = 0;
  bool tensor_scatters = false;  // reduce-scatters of a tensor group: sequence parallelism
};
DataTraffic data_traffic(const TracedRun& run, const RunRank& rank, const RankSteps& steps,
                         std::size_t step);

}  // namespace sim
