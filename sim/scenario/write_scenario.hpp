// A scenario as a file: every key written out, so that the file means the same whatever the
// defaults become.
#pragma once

#include <string>

#include "sim/scenario/scenario.hpp"

namespace sim {

// The YAML that load_scenario() reads back as `scenario`, for a file in `folder` (empty: where the
// user stands): model, cluster and corpus are named relative to it. A model that no file holds, or
// that the scenario carries, is written into it. What only the program itself sets (the what-if
// switches of SimulationOptions) is not part of a scenario file.
// `comment` goes in front, each of its lines behind a '#'.
std::string scenario_yaml(const Scenario& scenario, const std::string& folder,
                          const std::string& comment = {});

}  // namespace sim
