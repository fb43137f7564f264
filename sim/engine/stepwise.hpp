// Collectives as their sequence of messages, each a transfer of its own on the actual routes.
//
// A member enters round k + 1 once all that it sends and receives in round k has arrived. The
// latency of a message is that of its route plus the algorithm's and protocol's own
// (step_overhead).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "sim/engine/system.hpp"

namespace sim {

struct StepMessage {
  std::uint32_t run = 0;
  std::uint32_t from = 0, to = 0;  // index in the group
  std::uint32_t round = 0;
  std::span<const ResourceUse> uses;
  std::int64_t rate = 1;   // bytes/s
  std::int64_t flows = 1;  // its channels
  std::int64_t bytes = 0;
  Duration latency{};
  Duration transfer{};
};

class StepwiseRuns {
 public:
  // REQUIRES: `system` is unfolded: slot r is rank r on GPU r.
  StepwiseRuns(const System& system, const Cluster& cluster, const SimulationOptions& options);

  // Begins a collective; appends its first messages to `out`. False where the algorithm has no
  // message sequence (in-switch reduction) or nothing is sent: it then runs as one activity.
  bool begin(std::uint32_t activity, std::uint32_t channel, std::uint32_t request,
             std::vector<StepMessage>& out);

  // A message has arrived: appends what may be sent now. True when the whole collective is done.
  bool delivered(const StepMessage& message, std::vector<StepMessage>& out);

  std::uint32_t activity_of(std::uint32_t run) const { return runs_[run].activity; }

 private:
  struct Member {
    std::uint32_t round = 0;
    std::int32_t outstanding = 0;  // messages of the round, sent and received, not yet arrived
  };
  struct Run {
    std::uint32_t activity = 0;
    std::uint32_t channel = 0;
    Duration overhead_network{}, overhead_node{};
    int channels = 1;
    std::unique_ptr<StepSequence> sequence;
    std::vector<Member> members;
    std::vector<std::uint16_t> early;  // [member * rounds + round]: received before its round
    std::uint32_t finished = 0;
  };
  struct Path {
    std::vector<ResourceUse> uses;
    std::int64_t rate = 1;
    Duration latency{};
    bool network = false;
  };

  std::uint32_t new_run();
  void enter_rounds(std::uint32_t run, std::uint32_t member, std::vector<StepMessage>& out);
  void progress(std::uint32_t run, std::uint32_t member, std::vector<StepMessage>& out);
  const Path& path(std::uint32_t channel, std::uint32_t from, std::uint32_t to);
  Path make_path(const Channel& channel, std::uint32_t from, std::uint32_t to) const;

  const System& system_;
  const Cluster& cluster_;
  const SimulationOptions& options_;
  std::vector<std::uint32_t> resource_of_link_;
  std::vector<Run> runs_;
  std::vector<std::uint32_t> free_runs_;
  std::vector<std::unordered_map<std::uint64_t, Path>> paths_;  // by channel; looked up only
  std::vector<StepSend> sends_;
};

}  // namespace sim
