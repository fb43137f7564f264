// Disturbances of the steps of a job on a machine that is not its own, section `disturbance` of a
// scenario: other jobs on the fabric, and nodes that are slow. docs/how-sure.md has the sources.
#pragma once

#include <array>
#include <string>

#include "sim/base/words.hpp"
#include "sim/scenario/scenario_input.hpp"

namespace sim {

enum class DisturbancePreset : std::uint8_t { dedicated, shared };
constexpr auto words_of(DisturbancePreset) {
  return std::array{Word{DisturbancePreset::dedicated, "dedicated"},
                    Word{DisturbancePreset::shared, "shared"}};
}

struct Disturbance {
  DisturbancePreset preset = DisturbancePreset::dedicated;
  // The share of the bandwidth between nodes that a step gets: in the median, in the worst and in
  // the best twentieth of steps.
  double fabric_share = 1, fabric_share_low = 1, fabric_share_high = 1;
  double slow_nodes = 0;     // share of the cluster's nodes that are slow
  double slow_factor = 1.1;  // on the times of their kernels
  // The share of the machine's nodes that other jobs have: this one gets what they leave, drawn
  // anew for each run (AllocationKind::fragmented). 0: the nodes are where the scenario says.
  double occupancy = 0;
};

// preset_of() is the disturbance that a preset says for a job on so many nodes.
Disturbance preset_of(DisturbancePreset preset, int nodes);

// read_disturbance() reads it for the scenario under these overrides, whose job has `nodes` nodes.
// Throws InputError.
Disturbance read_disturbance(const ScenarioInput& scenario,
                             const std::vector<std::string>& overrides, int nodes);

}  // namespace sim
