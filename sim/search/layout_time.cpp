#include "sim/search/layout_time.hpp"

#include "sim/forecast/meetings.hpp"
#include "sim/forecast/servers.hpp"
#include "sim/plan/meeting.hpp"
#include "sim/report/report.hpp"
#include "sim/report/server_parts.hpp"

namespace sim {
namespace {

bool is_within(const LayoutTime& time, const SimulationOptions& options) {
  return !options.limit || time.step <= *options.limit;
}

LayoutTime time_together(const Plan& plan, const Cluster& cluster, const SimulationOptions& options,
                         Wirings& wirings, const Control& control) {
  const Timeline timeline = simulate(plan, cluster, options, wirings, control).timeline;
  LayoutTime time{.step = timeline.end.time_since_epoch()};
  if (!is_within(time, options)) return time;
  time.parts.breakdown = mean_breakdown(plan, timeline);
  time.parts.shares = step_shares(plan, timeline, time.parts.breakdown);
  return time;
}

LayoutTime time_apart(const Plan& plan, const Cluster& cluster, const SimulationOptions& options,
                      Wirings& wirings, const Control& control) {
  LayoutTime time =
      time_together(plan_of_steps(plan, 1, std::nullopt), cluster, options, wirings, control);
  if (!is_within(time, options)) return time;
  SimulationOptions whole = options;
  whole.limit.reset();
  const Duration meetings = simulate_meetings(plan, cluster, whole, control).per_step;
  time.step += meetings;
  time.parts.breakdown.exposed_data += meetings;
  return time;
}

LayoutTime time_with_servers(const Plan& plan, const Cluster& cluster,
                             const SimulationOptions& options, const Control& control) {
  SimulationOptions whole = options_of_worker(options);
  whole.limit.reset();
  const Timeline step = simulate(plan, cluster, whole, control).timeline;
  const ServerRun run = simulate_servers(plan, cluster, options, step, control);
  LayoutTime time{.step = run.step,
                  .parts = {.breakdown = mean_breakdown(plan, step), .shares = {}}};
  add_servers(time.parts.breakdown, run);
  time.parts.shares = step_shares(plan, step, time.parts.breakdown);
  return time;
}

}  // namespace

LayoutTime time_layout(const Plan& plan, const Cluster& cluster, const SimulationOptions& options,
                       Wirings& wirings, const Control& control) {
  if (plan.layout.has_servers()) return time_with_servers(plan, cluster, options, control);
  if (plan.layout.trains_apart()) return time_apart(plan, cluster, options, wirings, control);
  return time_together(plan, cluster, options, wirings, control);
}

}  // namespace sim
