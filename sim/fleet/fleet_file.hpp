// The text of a fleet file, before the scenarios that it names are loaded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/config/reader.hpp"
#include "sim/fleet/fleet.hpp"

namespace sim {

// `changes` are as of --set.
struct JobText {
  std::string name, scenario;
  std::vector<std::string> changes;
};

struct FleetText {
  std::string name, cluster;
  int phases = 0;
  std::uint64_t seed = 0;
  std::vector<std::string> changes;  // of all jobs
  std::vector<JobText> jobs;
};

// Throws InputError.
FleetText read_fleet(const Document& document);

}  // namespace sim
