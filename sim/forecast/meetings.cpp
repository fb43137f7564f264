#include "sim/forecast/meetings.hpp"

#include <algorithm>

#include "sim/engine/simulate.hpp"
#include "sim/plan/meeting.hpp"

namespace sim {
namespace {

bool is_of_meeting(GroupRole role) {
  return role == GroupRole::data || role == GroupRole::replicate;
}

// Beside those of other fragments: equal ones are one row, with the mean of their times.
void add(const CollectiveSummary& summary, std::vector<CollectiveSummary>& to) {
  for (CollectiveSummary& row : to) {
    CollectiveSummary same = row;
    same.count = summary.count;
    same.mean_time = summary.mean_time;
    if (same != summary) continue;
    const auto all = static_cast<std::int64_t>(row.count + summary.count);
    row.mean_time = (row.mean_time * static_cast<std::int64_t>(row.count) +
                     summary.mean_time * static_cast<std::int64_t>(summary.count)) /
                    all;
    row.count += summary.count;
    return;
  }
  to.push_back(summary);
}

// As much of a quantised message comes back as goes out to the groups: it is counted once.
bool is_message(const Program& program, std::uint32_t op) {
  return program.action[op] == Action::average_outer ||
         (program.action[op] == Action::exchange_outer &&
          program.collectives[program.work[op]].kind == CollectiveKind::all_to_all);
}

// Fullest of all ranks, of all fragments.
Bytes sent_of(const Plan& plan) {
  Bytes most{};
  for (const Program& program : plan.programs) {
    Bytes sent{};
    for (std::uint32_t op = 0; op < program.size(); ++op)
      if (is_message(program, op)) sent += program.collectives[program.work[op]].bytes;
    most = std::max(most, sent);
  }
  return most;
}

}  // namespace

MeetingTimes simulate_meetings(const Plan& plan, const Cluster& cluster,
                               const SimulationOptions& options, const Control& control) {
  SimulationOptions quiet = options;
  quiet.record_all = false;
  const int steps = steps_of_meeting(plan.layout);
  const auto run = [&](std::optional<int> fragment) {
    throw_if_stopped(control);
    return simulate(plan_of_steps(plan, steps, fragment), cluster, quiet, control).timeline;
  };
  const Duration without = run(std::nullopt).end.time_since_epoch();
  MeetingTimes times;
  times.message = sent_of(plan);
  for (int fragment = 0; fragment < plan.layout.outer_fragments; ++fragment) {
    const Timeline timeline = run(fragment);
    times.exposed += std::max(Duration{}, timeline.end.time_since_epoch() - without);
    for (const CollectiveSummary& summary : timeline.collectives)
      if (is_of_meeting(summary.group)) add(summary, times.collectives);
  }
  times.per_step = times.exposed / plan.layout.local_steps;
  return times;
}

}  // namespace sim
