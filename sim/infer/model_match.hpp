// Which shipped model has the widths that a trace shows.
#pragma once

#include <string>
#include <vector>

#include "sim/infer/observed_work.hpp"
#include "sim/model/model.hpp"

namespace sim {

struct ModelMatch {
  std::string model;        // as `models list` has it
  int tensor_parallel = 1;  // over which the widths are split
  double share = 0;         // of the observed layers' FLOPs, what the model explains
  double repeats = 0;       // of the whole model in a step: micro-batches over pipeline stages
  double head = 0;          // times that the head is computed in a step; 0: not on this rank
  bool recomputed = false;  // forward products run twice
};

struct ShippedModel {
  std::string name;  // as `models list` has it
  Model model;
};
// All that can be read; once, for all ranks of a run.
std::vector<ShippedModel> shipped_models();

// matching_models tries each of `models` under 1 to `most_tensor` tensor-parallel ranks: the
// layers must have gradients of exactly these widths, each as often as the model has it. Best
// first; of equal ones that whose head was seen, then that with the fewest ranks.
std::vector<ModelMatch> matching_models(const ObservedWork& work,
                                        const std::vector<ShippedModel>& models, int most_tensor);

}  // namespace sim
