#include "sim/engine/host_issue.hpp"

#include <algorithm>
#include <utility>

namespace sim {
namespace {

bool is_part_of_product(Action action) {
  return action == Action::multiply_part || action == Action::gradient_part;
}

}  // namespace

HostIssue host_issue_of(const SimulationOptions& options, const Device& device) {
  if ((options.graphs && options.graph_scope.empty()) || options.free_host) return {};
  const double calls = options.host_issue ? 1 : options.host_calls;
  const Duration call = options.host_issue.value_or(device.host_issue);
  const auto slowed = [&](double seconds) {
    return duration_from_seconds(seconds * options.factors.host);
  };
  return {.kernel = slowed(to_seconds(call) * calls),
          .part = slowed(std::min(to_seconds(call) * calls, to_seconds(device.host_issue)))};
}

int launches_of(const Program& program, std::uint32_t op) {
  return runs_kernel(program.kind[op]) ? program.kernels[program.work[op]].launches : 1;
}

bool CallParts::is_part(std::uint32_t op) {
  if (program_.kind[op] == OpKind::collective) {
    const Carrier carrier = program_.collectives[program_.work[op]].carrier;
    return carrier == Carrier::copy_engines || carrier == Carrier::user_buffers;
  }
  if (program_.stream[op] != Stream::compute) return false;
  const std::optional<std::uint32_t> before = std::exchange(last_, op);
  return before && is_part_of_product(program_.action[op]) &&
         program_.action[*before] == program_.action[op] &&
         program_.subject[*before] == program_.subject[op] &&
         program_.pass[*before] == program_.pass[op] &&
         program_.label[*before].microbatch == program_.label[op].microbatch;
}

}  // namespace sim
