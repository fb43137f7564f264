// The device file of a GPU that a driver names, and the part of it that a rank has of a GPU that
// several ranks share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/topology/device.hpp"

namespace sim {

// device_of_gpu() is the name in topologies/devices of "NVIDIA H100 80GB HBM3", as nvidia-smi and
// the CUDA runtime print it; empty: there is no such file.
std::string device_of_gpu(std::string_view driver_name);
// The GPUs that device_of_gpu() knows, in the driver's words: the aliases of the device files.
std::vector<std::string> known_gpus();

// SMs of one of `ranks` processes that share a GPU, each with 100 / `ranks` percent of its threads
// (CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, whole percents): whole pairs of SMs, as the driver gave on an
// H200 with 132 SMs (2026-11-20): 66 of two ranks, 32 of four, 14 of eight.
int shared_sms(int sms, int ranks);

// Nominal device of each of `ranks` that share a GPU and use it all at once: rates by SMs, an equal
// share of memory and its bandwidth, and the power limit of all. Measured kernels are left out.
// REQUIRES: ranks >= 1. Throws InputError where a rank would have no SM.
Device share_of_gpu(const Device& device, int ranks);

}  // namespace sim
