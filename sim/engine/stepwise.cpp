#include "sim/engine/stepwise.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "sim/base/check.hpp"

namespace sim {

StepwiseRuns::StepwiseRuns(const System& system, const Cluster& cluster,
                           const SimulationOptions& options)
    : system_{system},
      cluster_{cluster},
      options_{options},
      resource_of_link_(cluster.link_count(), UINT32_MAX),
      paths_(system.channels.size()) {
  for (std::uint32_t r = 0; r < system.resources.size(); ++r)
    resource_of_link_[system.resources[r].link.value] = r;
}

std::uint32_t StepwiseRuns::new_run() {
  if (free_runs_.empty()) {
    runs_.emplace_back();
    return static_cast<std::uint32_t>(runs_.size() - 1);
  }
  const std::uint32_t run = free_runs_.back();
  free_runs_.pop_back();
  return run;
}

bool StepwiseRuns::begin(std::uint32_t activity, std::uint32_t channel, std::uint32_t request,
                         std::vector<StepMessage>& out) {
  const Channel& wired = system_.channels[channel];
  const CommCost& cost = system_.cost(wired.shape, request);
  if (cost.algorithm == Algorithm::in_switch || cost.link_bytes == 0) return false;
  if (cost.latency + cost.transfer == Duration{}) return false;  // a what-if: it is free
  const Collective& collective = system_.requests.collectives[request];
  if (is_fused_exchange(collective.carrier)) return false;  // one kernel forwards as it receives
  const GroupShape& shape = system_.group_shapes[wired.shape];
  const CollectiveChoice choice = choice_for(collective, options_);
  const CollectiveCost full = collective_cost(cluster_, shape, collective, choice);
  const std::uint32_t index = new_run();
  Run& run = runs_[index];
  run.activity = activity;
  run.channel = channel;
  run.sequence = step_sequence(collective, full, shape, choice.server_shards);
  run.channels = full.channels;
  run.overhead_network = step_overhead(full, shape, PathKind::network);
  run.overhead_node = step_overhead(full, shape, shape.intra);
  run.members.assign(wired.member_count, {});
  run.early.assign(wired.member_count * static_cast<std::size_t>(run.sequence->rounds()), 0);
  run.finished = 0;
  for (std::uint32_t m = 0; m < wired.member_count; ++m)
    enter_rounds(index, m, out);
  SIM_CHECK(run.finished < wired.member_count, word(cost.algorithm));
  return true;
}

// Enters the member's current round and every further one in which it has nothing to wait for.
void StepwiseRuns::enter_rounds(std::uint32_t index, std::uint32_t member,
                                std::vector<StepMessage>& out) {
  Run& run = runs_[index];
  Member& state = run.members[member];
  const auto rounds = static_cast<std::uint32_t>(run.sequence->rounds());
  for (; state.round < rounds; ++state.round) {
    const auto round = static_cast<int>(state.round);
    run.sequence->sends(static_cast<int>(member), round, sends_);
    const int early = run.early[static_cast<std::size_t>(member) * rounds + state.round];
    state.outstanding = static_cast<std::int32_t>(sends_.size()) +
                        run.sequence->receives(static_cast<int>(member), round) - early;
    for (const StepSend& send : sends_) {
      const Path& path = this->path(run.channel, member, send.to);
      const Duration own = path.network ? run.overhead_network : run.overhead_node;
      out.push_back(
          {.run = index,
           .from = member,
           .to = send.to,
           .round = state.round,
           .uses = path.uses,
           .rate = path.rate,
           .flows = std::max(1, run.channels * send.lanes / run.sequence->lanes()),
           .bytes = send.bytes.count(),
           .latency = std::max(Duration{}, path.latency + own),
           .transfer = send.bytes / Bandwidth::bytes_per_second(static_cast<double>(path.rate))});
    }
    if (state.outstanding > 0) return;
  }
  ++run.finished;
}

void StepwiseRuns::progress(std::uint32_t index, std::uint32_t member,
                            std::vector<StepMessage>& out) {
  Member& state = runs_[index].members[member];
  if (--state.outstanding > 0) return;
  ++state.round;
  enter_rounds(index, member, out);
}

bool StepwiseRuns::delivered(const StepMessage& message, std::vector<StepMessage>& out) {
  progress(message.run, message.from, out);
  Run& run = runs_[message.run];
  if (run.members[message.to].round == message.round) {
    progress(message.run, message.to, out);
  } else {
    const auto rounds = static_cast<std::size_t>(run.sequence->rounds());
    ++run.early[message.to * rounds + message.round];
  }
  if (run.finished < run.members.size()) return false;
  free_runs_.push_back(message.run);
  return true;
}

const StepwiseRuns::Path& StepwiseRuns::path(std::uint32_t channel, std::uint32_t from,
                                             std::uint32_t to) {
  const std::uint64_t key = static_cast<std::uint64_t>(from) << 32 | to;
  auto& paths = paths_[channel];
  const auto found = paths.find(key);
  if (found != paths.end()) return found->second;
  return paths.emplace(key, make_path(system_.channels[channel], from, to)).first->second;
}

StepwiseRuns::Path StepwiseRuns::make_path(const Channel& channel, std::uint32_t from,
                                           std::uint32_t to) const {
  const std::span<const std::uint32_t> members = system_.members_of(channel);
  const GpuId source{members[from]};
  const GpuId target{members[to]};
  const Route route = cluster_.route(source, target);
  Path path;
  path.network = route.kind == PathKind::network;
  path.latency = route.latency;
  double rate = std::numeric_limits<double>::infinity();
  for (const Hop& hop : transfer_pattern(cluster_, route)) {
    const std::uint32_t resource = resource_of_link_[hop.link.value];
    SIM_CHECK(resource != UINT32_MAX, hop.link.value);
    path.uses.push_back({resource, hop.share});
    const auto capacity = static_cast<double>(system_.resources[resource].capacity);
    rate = std::min(rate, capacity * 65536 / hop.share);
  }
  path.rate = std::max<std::int64_t>(1, static_cast<std::int64_t>(rate));
  return path;
}

}  // namespace sim
