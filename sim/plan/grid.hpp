// Ranks on the grid tensor x data x pipeline, and the communicators that its lines are.
#pragma once

#include "sim/plan/plan.hpp"

namespace sim {

// What a plan has beyond the lines of the grid.
struct FurtherGroups {
  bool tied_embedding = false;
  bool maxima = false;
  bool experts = false;
};

// Fills groups, group_of and peer_of. A group of one rank is left out.
void make_groups(Plan& plan, FurtherGroups further);

}  // namespace sim
