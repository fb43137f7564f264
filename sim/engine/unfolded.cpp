#include "sim/engine/unfolded.hpp"

#include <vector>

namespace sim {
namespace {

// The messages that a rank sends in a ring through its group.
std::uint64_t ring_messages(const Plan& plan, RankId rank, GroupRole role) {
  const std::uint32_t group = plan.group_of[rank.value][static_cast<std::size_t>(role)];
  return group == Plan::no_group ? 0 : 2 * (plan.groups[group].ranks.size() - 1);
}

std::uint64_t activities_of(const Plan& plan, RankId rank, CollectiveModel model) {
  const Program& program = plan.program(rank);
  std::uint64_t count = program.size();
  if (model == CollectiveModel::fluid) return count;
  for (std::size_t op = 0; op < program.size(); ++op)
    if (program.kind[op] == OpKind::collective)
      count += ring_messages(plan, rank, program.collectives[program.work[op]].group);
  return count;
}

}  // namespace

bool folds(const SimulationOptions& options) {
  // Jitter gives every rank times of its own, and messages one by one have no class to stand for
  // them: both need the whole machine.
  return options.fold && options.jitter <= 0 && options.collectives == CollectiveModel::fluid;
}

std::uint64_t unfolded_activities(const Plan& plan, const SimulationOptions& options) {
  if (folds(options)) return 0;
  std::vector<std::uint64_t> known(plan.programs.size());  // of a rank; 0: not yet
  std::uint64_t sum = 0;
  for (std::uint32_t rank = 0; rank < plan.program_of_rank.size(); ++rank) {
    std::uint64_t& one = known[plan.program_of_rank[rank]];
    if (one == 0) one = activities_of(plan, RankId{rank}, options.collectives);
    sum += one;
  }
  return sum;
}

}  // namespace sim
