// Which algorithm the collectives of a role run with: `communication` of the scenario, as a choice
// of the user. `automatic`: the library's own choice; on the host, ring.
#pragma once

#include <array>
#include <cstdint>

#include "sim/program/program.hpp"

namespace real {

enum class AlgorithmChoice : std::uint8_t { automatic, ring, tree, halving_doubling, hierarchical };

struct Algorithms {
  std::array<AlgorithmChoice, sim::group_role_count> of_role{};  // by GroupRole
  int ranks_per_node = 0;  // hierarchical: neighbours in rank order that share a node; 0: all
  AlgorithmChoice of(sim::GroupRole role) const { return of_role[static_cast<std::size_t>(role)]; }
};

}  // namespace real
