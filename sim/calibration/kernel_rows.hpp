// Files of kernel rows (validation/real/torch_kernels.py, topologies/devices/measurements) as
// measurements of a machine, divided by chance into rows for a fit and rows to judge it by, and
// their forecasts on a device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/calibration/measurements.hpp"
#include "sim/cost/kernel_fit.hpp"
#include "sim/topology/device.hpp"

namespace sim {

struct KernelRowsOfFiles {
  MeasuredMachine machine;             // the rows with a time, each with its use
  std::vector<KernelMeasurement> all;  // also those that are planned or were left out
  std::vector<std::string> notes;      // rows that no fit can use, and why
};

// Reads "# gpu: ", "# host: ", "# date: ", "# version: " and "# condition: " of the files, too.
// `seed` draws the rows that are held out (held_out()). Throws InputError.
KernelRowsOfFiles read_kernel_rows(const std::vector<std::string>& paths, std::uint64_t seed);

// Rows of each kind, and how far the device's forecasts are off them.
std::string forecast_table(const KernelRowsOfFiles& rows, const Device& device);

// A record per row: its forecast, its time where it has one, and its use. Kernels that the device
// has no rates for are left out.
std::string forecast_csv(const KernelRowsOfFiles& rows, const Device& device, std::uint64_t seed);

}  // namespace sim
