// Time of one kernel on one device.
#pragma once

#include "sim/plan/program.hpp"
#include "sim/topology/device.hpp"

namespace sim {

struct KernelCost {
  Duration time{};        // alone on the device, without host issue time
  Bandwidth memory{};     // device memory traffic while it runs: bytes / time
  double sm_share = 1;    // of the SMs while it runs
};

// Throws InputError (at `device.name`) for a dtype that the device cannot compute in.
KernelCost kernel_cost(const Kernel& kernel, const Device& device);

}  // namespace sim
