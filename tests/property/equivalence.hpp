// Trains a model on host ranks that are threads, for tests: losses, and the final state of the
// whole model.
#pragma once

#include <string>
#include <vector>

#include "real/engine/checkpoint/global_tensors.hpp"
#include "real/engine/data/tokens.hpp"
#include "real/engine/kernels/algorithms.hpp"
#include "real/engine/parameters.hpp"
#include "real/engine/trainer.hpp"
#include "sim/layout/layout.hpp"
#include "sim/layout/training.hpp"
#include "sim/model/model.hpp"
#include "sim/servers/staleness.hpp"

namespace real::test {

struct TrainedModel {
  std::vector<Parameter> parameters;
  std::vector<double> losses;  // of each step
  std::vector<double> norms;   // of the gradient, before clipping
  GlobalTensors weights, first_moments, second_moments;
  sim::Staleness staleness;  // of parameter servers
  std::vector<StepLoads> expert_loads;
};

struct TrainOptions {
  Algorithms algorithms;
  std::string resume;  // folder of a checkpoint to go on from
  std::string save;    // folder for one at the end
};

// `training.steps` steps; with `resume`, up to that step. Throws what the first rank that failed
// threw.
TrainedModel train_on_host(const sim::Model& model, const sim::Layout& layout,
                           const sim::Training& training, const Samples& samples,
                           const TrainOptions& options = {});

// max |a - b| / max(max |b|, least) of each tensor; the largest of all, and whose it is.
struct Difference {
  double relative = 0;
  std::string parameter;
};
Difference largest_difference(const std::vector<Parameter>& parameters, const GlobalTensors& a,
                              const GlobalTensors& b, double least = 0);

}  // namespace real::test
