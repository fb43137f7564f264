// MachineRequest: the measurements to take on this machine, and where the result goes.
// real/jobs measures.
#pragma once

#include <string>
#include <vector>

namespace sim {

// Names of shipped files, or paths; empty: nothing.
struct MachineRequest {
  std::vector<std::string> scenarios{};  // whose kernels and collectives are measured
  std::string suite{};                   // its scenarios too, on its backend and ranks
  std::string backend = "host";          // or "cuda"
  int ranks = 0;                         // that measure at once; 0: those of the widest scenario
  int ranks_per_gpu = 0;                 // 0: a GPU each
  double seconds = 60;                   // about what it may take
  bool nominal = false;                  // nothing is measured: the figures of the bases
  std::string base_device{};             // for what is not measured; empty: this machine's
  std::string base_cluster{};
  std::string gpu{};     // in the driver's words, instead of this machine's
  std::string folder{};  // for device.yaml and cluster.yaml
};

}  // namespace sim
