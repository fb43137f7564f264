// Ranks on the grid tensor x data x pipeline, and the communicators that its lines are.
#pragma once

#include <vector>

#include "sim/plan/plan.hpp"

namespace sim {

// FurtherGroups are the groups of a plan beyond the lines of the grid.
struct FurtherGroups {
  bool tied_embedding = false;
  bool maxima = false;
  bool experts = false;
};

// How many coordinates a dimension has.
int size_of(const Layout& layout, Dimension dimension);

// The group of the rank at these coordinates, in communicator order; empty: it would be alone.
std::vector<RankId> group_members(const Layout& layout, GroupRole role, const RankCoordinates& of);

// Fills groups, group_of and peer_of. A group of one rank is left out.
void make_groups(Plan& plan, FurtherGroups further);

}  // namespace sim
