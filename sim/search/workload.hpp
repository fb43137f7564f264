// The workload of a search without a scenario file.
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

// The same of a scenario file with the workload's overrides; of the workload where it is empty.
ScenarioSources search_sources(const std::string& scenario, const Workload& workload);

// The workload as arguments of `stepcast search`: all that the answers depend on, but for the
// scenario file.
std::vector<std::string> arguments_of(const Workload& workload);

}  // namespace sim
