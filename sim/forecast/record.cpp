#include "sim/forecast/record.hpp"

#include <fmt/format.h>

#include <map>

#include "sim/forecast/forecast.hpp"

namespace sim {

RecordOrigin origin_of(const Scenario& scenario) {
  RecordOrigin origin;
  origin.scenario = scenario.name;
  origin.machine = fmt::format("{} of {}", scenario.cluster.device().name, scenario.cluster.name());
  origin.provenance = {fmt::format("stepcast {}", STEPCAST_VERSION),
                       "device: " + scenario.cluster.device().origin,
                       fmt::format("seed {}", scenario.options.seed)};
  origin.gpus_per_node = scenario.cluster.gpus_per_node();
  return origin;
}

Record simulated_record(const Scenario& scenario, bool every_rank, const Control& control) {
  const Forecast made = forecast(scenario, {.every_rank = every_rank}, control);
  return make_record(*made.plan, made.timeline, origin_of(scenario));
}

Record simulated_record(const Scenario& scenario, const std::vector<RankId>& ranks,
                        const Control& control) {
  const bool every_rank = scenario.layout.world_size() <= most_simulated_ranks;
  Forecast made = forecast(scenario, {.every_rank = every_rank}, control);
  const Plan& plan = *made.plan;
  std::map<RankId, RankTrack> wanted;
  for (const RankId asked : ranks) {
    const RankId rank{asked.value % static_cast<std::uint32_t>(plan.world_size())};
    const RankTrack* track = nullptr;
    for (const RankTrack& of : made.timeline.tracks)
      if (of.rank == rank || (track == nullptr && plan.program_of_rank[of.rank.value] ==
                                                      plan.program_of_rank[rank.value]))
        track = &of;
    if (track == nullptr) continue;
    RankTrack own = *track;
    own.rank = rank;
    own.represents = 1;
    wanted.emplace(rank, std::move(own));
  }
  made.timeline.tracks.clear();
  for (auto& [rank, track] : wanted)
    made.timeline.tracks.push_back(std::move(track));
  return make_record(plan, made.timeline, origin_of(scenario));
}

}  // namespace sim
