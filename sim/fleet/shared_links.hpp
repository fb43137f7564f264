// The links of the fabric that several jobs use.
#pragma once

#include <vector>

#include "sim/fleet/fleet.hpp"
#include "sim/plan/plan.hpp"
#include "sim/timeline/timeline.hpp"

namespace sim {

// By link of the fabric: the share of a step alone in which the job uses it. `step` is of this
// plan.
std::vector<double> busy_shares(const Plan& plan, const Scenario& scenario, const Timeline& step,
                                const Control& control);

// The links that both use, by the product of their shares; at most `most`, those alike as one.
std::vector<SharedLink> shared_links(const Cluster& cluster, const std::vector<double>& first,
                                     const std::vector<double>& second, std::size_t most);

}  // namespace sim
