#include "sim/infer/groups_seen.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "sim/base/lower_case.hpp"

namespace sim {
namespace {

struct UseWord {
  const char* word;
  GroupUse use;
};
// The first that a name holds. Megatron-LM's data groups also name context and tensor.
constexpr std::array use_words{UseWord{"expert_tensor", GroupUse::expert},
                               UseWord{"expert_data", GroupUse::data},
                               UseWord{"expert", GroupUse::expert},
                               UseWord{"mesh_ep", GroupUse::expert},
                               UseWord{"data_parallel", GroupUse::data},
                               UseWord{"mesh_dp", GroupUse::data},
                               UseWord{"dp_shard", GroupUse::data},
                               UseWord{"dp_replicate", GroupUse::data},
                               UseWord{"fsdp", GroupUse::data},
                               UseWord{"pipeline", GroupUse::pipeline},
                               UseWord{"mesh_pp", GroupUse::pipeline},
                               UseWord{"context", GroupUse::context},
                               UseWord{"mesh_cp", GroupUse::context},
                               UseWord{"tensor", GroupUse::tensor},
                               UseWord{"mesh_tp", GroupUse::tensor}};

bool is_within_layer(GroupUse use) {
  return use == GroupUse::tensor || use == GroupUse::context || use == GroupUse::expert;
}

}  // namespace

GroupUse use_of(const TracedGroup& group) {
  const std::string name = lower_case(group.description + " " + group.name);
  for (const UseWord& known : use_words)
    if (name.find(known.word) != std::string::npos) return known.use;
  return GroupUse::unknown;
}

std::optional<int> size_of_use(const TracedRun& run, GroupUse use) {
  std::optional<int> size;
  for (const TracedGroup& group : run.groups)
    if (group.size > 0 && use_of(group) == use) size = std::max(size.value_or(0), group.size);
  return size;
}

DataTraffic data_traffic(const TracedRun& run, const RunRank& rank, const RankSteps& steps,
                         std::size_t step) {
  DataTraffic traffic;
  for (std::size_t i = 0; i < rank.device.size(); ++i) {
    const DeviceActivity& activity = rank.device[i];
    if (activity.call == not_told || steps.step_of[i] != static_cast<std::int32_t>(step)) continue;
    const CollectiveCall& call = rank.calls[static_cast<std::size_t>(activity.call)];
    const GroupUse use = call.group == not_told
                             ? GroupUse::unknown
                             : use_of(run.groups[static_cast<std::size_t>(call.group)]);
    if (is_within_layer(use)) {
      traffic.tensor_scatters =
          traffic.tensor_scatters ||
          (use == GroupUse::tensor && call.kind == CollectiveKind::reduce_scatter);
      continue;
    }
    traffic.all_reduces += call.kind == CollectiveKind::all_reduce ? 1 : 0;
    traffic.all_gathers += call.kind == CollectiveKind::all_gather ? 1 : 0;
    traffic.reduce_scatters += call.kind == CollectiveKind::reduce_scatter ? 1 : 0;
  }
  return traffic;
}

}  // namespace sim
