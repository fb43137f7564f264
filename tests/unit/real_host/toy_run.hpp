// A toy model trained for a few steps on any layout, ranks as threads.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "real/engine/backend.hpp"
#include "real/host/host_backend.hpp"
#include "sim/model/transformer.hpp"
#include "sim/plan/plan.hpp"

namespace real_test {

struct ToyRun {
  sim::TransformerShape shape{};
  sim::Layout layout{};
  sim::Training training{};
  real::Algorithms algorithms{};
  int steps = 3;
  bool record = false;
  int quits = -1;        // a rank that throws "quit" instead of running its second step
  std::string poison{};  // a parameter that begins with a number that is not finite
};

struct ToyResult {
  sim::Plan plan;
  int ended_by_others = 0;                            // ranks
  std::vector<double> loss;                           // per step: the mean over all replicas
  std::vector<double> norm;                           // per step, of rank 0
  std::vector<std::vector<sim::Span>> spans;          // of the last step, by rank
  std::vector<std::int64_t> not_finite;               // of the last step, by rank
  std::map<std::string, std::vector<float>> weights;  // by name, whole
};

sim::TransformerShape toy_shape();
sim::Layout toy_layout();
// Throws what the first rank throws that fails by itself.
ToyResult run_toy(const ToyRun& run);

}  // namespace real_test
