// The kernels of a traced run in sum: by category, by name and, of matrix products, by shape.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "sim/explain/steps.hpp"
#include "sim/topology/device.hpp"
#include "sim/trace/traced_run.hpp"

namespace sim {

// Means over the steps and ranks that are looked at.
struct KernelRow {
  std::string name;
  std::string category{};
  double count = 0;           // kernels
  double seconds = 0;         // of a step; those that overlap count twice
  double share = 0;           // of the step's time
  double flops = 0;           // of kernels whose shape is told; 0: none is
  double shaped_seconds = 0;  // of those kernels
  double of_peak = 0;         // achieved rate over the peak in 16 bits; 0: not known
  Product product{};          // of a row by shape
  double flop_rate() const { return shaped_seconds > 0 ? flops / shaped_seconds : 0; }
};

struct KernelTables {
  std::vector<KernelRow> categories;  // longest first
  std::vector<KernelRow> names;       // longest first
  std::vector<KernelRow> products;    // by shape: the one furthest from the peak, in time, first
};

// Which steps of which rank count.
using CountedSteps = std::vector<std::vector<bool>>;  // [rank][step]
std::size_t number_of_steps(const CountedSteps& counted);

// `peak`: of the device in 16 bits; 0: not known. `seconds`: a step takes, in the mean.
KernelTables kernel_tables(const TracedRun& run, const RunSteps& steps, const CountedSteps& counted,
                           double seconds, FlopRate peak);

// The traced device, by its name among the device files; nothing: it is not known.
std::optional<Device> known_device(const TracedDevice& device);
FlopRate peak_in_16_bits(const Device& device);  // data sheet; 0: it has no such format

// "8192x28672x4096", of several "4 x 128x128x64".
std::string shape_text(const Product& product);

}  // namespace sim
