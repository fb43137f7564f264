// What a search without a scenario file is about.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/scenario/sources.hpp"

namespace sim {

// A model on some GPUs of a cluster, by names of shipped files or by paths.
struct Workload {
  std::string model, cluster;
  int gpus = 0;
  std::int64_t global_batch = 0;         // sequences per step
  std::int64_t sequence_length = 0;      // tokens; 0: the model's own
  std::vector<std::string> overrides{};  // "section.key=value"
};

// As a scenario for load_search(). Throws InputError that names what is missing as an option of the
// command line: "--model".
ScenarioSources workload_sources(const Workload& workload);

}  // namespace sim
