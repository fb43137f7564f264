// Which figures of a machine no measurement stands behind: what a forecast on it must say.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/topology/cluster.hpp"

namespace sim {

struct Unvalidated {
  std::string what;  // "device" or "cluster"
  std::string name;
  std::string rests_on;  // its file's `not_validated`
};

// The device first. Empty: both are validated.
std::vector<Unvalidated> unvalidated(const Cluster& cluster);

// "not validated: no measurement of training stands behind device MI300X, cluster mi300x-8". Empty
// for none.
std::string unvalidated_line(std::span<const Unvalidated> parts);

}  // namespace sim
