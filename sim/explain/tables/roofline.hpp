// The kernels of a traced run against what their device can do: rates over arithmetic intensities.
#pragma once

#include <string>
#include <vector>

#include "sim/explain/tables/kernel_table.hpp"

namespace sim {

// Kernels of one name with the same work. Means over the steps and ranks that are looked at.
struct RooflinePoint {
  std::string name;
  std::string category{};
  std::string shape{};  // of a product, m x n x k; empty: of another kernel
  DType dtype = DType::bf16;
  double count = 0;    // operators of a step
  double seconds = 0;  // of a step
  double flops = 0;    // of a step; 0: the trace tells its bytes alone
  double bytes = 0;    // of a step: what they must move at least
  // The least time on the device, by the data sheet, over its own; 0: the device is not known.
  // Above 1: what it moves comes from a cache.
  double of_roof = 0;
  bool memory_bound = false;  // the memory's line is the lower one
  double intensity() const { return bytes > 0 ? flops / bytes : 0; }  // FLOP per byte
  double flop_rate() const { return seconds > 0 ? flops / seconds : 0; }
  double byte_rate() const { return seconds > 0 ? bytes / seconds : 0; }
};

// Dense rates of the data sheet.
struct RooflineLine {
  DType dtype = DType::bf16;
  FlopRate peak{};
};

struct Roofline {
  std::string device{};                 // empty: not known, and there are no lines
  Bandwidth memory{};                   // data sheet
  std::vector<RooflineLine> compute{};  // of the formats that points have
  std::vector<RooflinePoint> points{};  // most time beyond the least first
};

// roofline_of() has the kernels whose work the trace tells: matrix products and others with shapes,
// and those of records. `device`: null: not known.
Roofline roofline_of(const TracedRun& run, const RunSteps& steps, const CountedSteps& counted,
                     const Device* device);

}  // namespace sim
