// The result of a suite: factors, and the curves that they come from.
#pragma once

#include <string>
#include <vector>

#include "sim/convergence/factors.hpp"

namespace sim {

struct ConvergenceResult {
  ConvergenceFactors factors;
  std::vector<LossCurve> curves;  // of the runs that began
  bool interrupted = false;
};

// A row per scheme: final loss, bytes, and a factor for each target.
std::string convergence_table(const ConvergenceResult& result);
std::string convergence_markdown(const ConvergenceResult& result);
// A row per scheme, seed and step: the loss as it was and smoothed.
std::string convergence_csv(const ConvergenceResult& result);
std::string convergence_json(const ConvergenceResult& result);  // both

}  // namespace sim
