#include "sim/convergence/traffic.hpp"

#include <algorithm>
#include <cmath>

#include "sim/plan/server_exchange.hpp"
#include "sim/timeline/trace_counters.hpp"

namespace sim {
namespace {

bool synchronises(GroupRole role) {
  return role == GroupRole::data || role == GroupRole::shard || role == GroupRole::replicate ||
         role == GroupRole::expert_data || role == GroupRole::expert_shard ||
         role == GroupRole::expert_replicate;
}

double sent_by(const Plan& plan, RankId rank) {
  const Program& program = plan.program(rank);
  double sent = 0;
  for (std::size_t op = 0; op < program.size(); ++op) {
    if (program.action[op] == Action::exchange_with_servers)
      sent += static_cast<double>(
          server_bytes(plan.layout, program.kernels[program.work[op]].m).pushed.count());
    if (program.kind[op] != OpKind::collective) continue;
    const Collective& collective = program.collectives[program.work[op]];
    if (!synchronises(collective.group)) continue;
    const std::uint32_t group =
        plan.group_of[rank.value][static_cast<std::size_t>(collective.group)];
    const std::size_t ranks = group == Plan::no_group ? 1 : plan.groups[group].ranks.size();
    if (ranks < 2) continue;
    // A fragment meets once in a round.
    const int every = is_of_meeting(program.action[op]) ? plan.layout.local_steps : 1;
    sent += sent_share(collective.kind, static_cast<double>(ranks)) *
            static_cast<double>(collective.bytes.count()) / every;
  }
  return sent;
}

}  // namespace

Bytes synchronisation_bytes(const Plan& plan) {
  double most = 0;
  for (int rank = 0; rank < plan.world_size(); ++rank)
    most = std::max(most, sent_by(plan, RankId{static_cast<std::uint32_t>(rank)}));
  return Bytes{std::llround(most)};
}

}  // namespace sim
