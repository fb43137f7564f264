// The matrix products of a rank's step as layers of a model: what widths, how often.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/explain/steps.hpp"
#include "sim/trace/traced_run.hpp"

namespace sim {

// A linear layer by its features. Forward, gradient of the input and gradient of the weights are
// products of the same three sizes; the last has the tokens as its depth.
struct ObservedLinear {
  std::int64_t narrow = 0, wide = 0;  // features: the smaller, the larger
  std::int64_t gradients = 0;         // of the weights, in a step
  std::int64_t products = 0;          // all, these among them
  bool all_alike = false;  // both are as many as the tokens: gradients cannot be told from others
  double flops = 0;        // of all
};

struct ObservedWork {
  std::int64_t tokens = 0;              // of a micro-batch, on this rank
  std::vector<ObservedLinear> linears;  // most FLOPs first
  double flops = 0;                     // of all products of the step whose shapes are told
  double covered = 0;                   // of those, the share that `linears` are
};

// observed_work looks at the products that the kernels of one step issued. Two sizes are in nearly
// all of them, now as depth and now as rows: the tokens and the width of the model. Forward
// products have the width as depth, so the tokens are the size that is depth for the first time
// later. Empty: no product of the step has a shape, or there is no such size.
std::optional<ObservedWork> observed_work(const RunRank& rank, const RankSteps& steps,
                                          std::size_t step);

}  // namespace sim
