// The collectives of a measured step, kind by kind.
#pragma once

#include <vector>

#include "real/engine/kernels/algorithms.hpp"
#include "sim/timeline/timeline.hpp"

namespace real {

// REQUIRES: a track of every rank.
std::vector<sim::CollectiveSummary> summarise_collectives(const sim::Plan& plan,
                                                          const sim::Timeline& timeline,
                                                          const Algorithms& algorithms);

}  // namespace real
