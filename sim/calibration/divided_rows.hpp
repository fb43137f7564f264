// The measured kernels of a machine as rows of fits.
#pragma once

#include <string>
#include <vector>

#include "sim/calibration/measurements.hpp"
#include "sim/cost/kernel_fit.hpp"
#include "sim/topology/device.hpp"

namespace sim {

struct DividedRows {
  std::vector<KernelMeasurement> fitted, held_out, checked;  // KernelUse
  std::vector<KernelMeasurement> listed;                     // these are fitted, too
  std::vector<std::string> notes;                            // kernels that cannot be
};

// Throws InputError where a kernel has no shape or no time, or more SMs than the device.
DividedRows divide_rows(const std::vector<MeasuredKernel>& kernels, const Device& device);

}  // namespace sim
