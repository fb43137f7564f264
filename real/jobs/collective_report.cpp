#include "real/jobs/collective_report.hpp"

#include "sim/collective/collective_cost.hpp"
#include "sim/engine/cost_table.hpp"

namespace real {

std::vector<sim::Duration> times_alone(const sim::Scenario& scenario, const sim::Plan& plan,
                                       sim::RankId rank,
                                       const std::vector<sim::CollectiveEntry>& entries) {
  const sim::Program& program = plan.program(rank);
  std::vector<sim::Duration> times;
  for (const sim::CollectiveEntry& entry : entries) {
    const sim::Collective& request = program.collectives[program.work[entry.op.value]];
    const std::uint32_t group = plan.group_of[rank.value][static_cast<std::size_t>(request.group)];
    std::vector<sim::GpuId> members;
    for (const sim::RankId member : plan.groups[group].ranks)
      members.push_back(sim::GpuId{member.value});
    const sim::CollectiveCost cost =
        sim::collective_cost(scenario.cluster, sim::group_shape(scenario.cluster, members), request,
                             sim::choice_for(request, scenario.options));
    times.push_back(cost.latency + cost.transfer);
  }
  return times;
}

std::string collective_report(const sim::Scenario& scenario, const sim::Plan& plan,
                              const TrainingRun& run) {
  if (run.timeline.tracks.empty())
    return run.lost.empty()
               ? "no collectives: the run was interrupted before the recorded step\n"
               : "no collectives: a rank was lost, and no step is recorded behind that\n";
  const sim::RankTrack& track = run.timeline.tracks.front();
  const std::vector<sim::CollectiveEntry> entries = sim::log_collectives(plan, track);
  return "collectives of rank 0 in the last step\n" +
         sim::collective_log_text(entries, sim::fit_alpha_beta(entries),
                                  times_alone(scenario, plan, track.rank, entries));
}

}  // namespace real
