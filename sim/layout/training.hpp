// What a run trains on and how: the `training` section of a scenario. Only the real engine reads
// it.
#pragma once

#include <cstdint>
#include <string>

#include "sim/layout/learning_rate.hpp"

namespace sim {

struct Training {
  int steps = 10;
  std::uint64_t seed = 1;  // of weights and of the order of the data
  std::string data = {};   // text or token file; empty: the corpus that is shipped
  LearningRate learning_rate = {};
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1;
  double clip = 1.0;  // gradient norm; 0: off
  bool operator==(const Training&) const = default;
};

}  // namespace sim
