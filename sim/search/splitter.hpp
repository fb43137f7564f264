// Splits of a model's layers over pipeline stages that are balanced by what its blocks cost, and of
// a step's micro-batches over replicas of different speed.
#pragma once

#include <memory>
#include <vector>

#include "sim/search/candidates.hpp"

namespace sim {

class Splitter {
 public:
  // Keeps a reference.
  explicit Splitter(const SearchSpecification& specification);
  ~Splitter();
  Splitter(const Splitter&) = delete;
  Splitter& operator=(const Splitter&) = delete;

  // The balanced splits of a pipeline under these ZeRO stages, on which depends what fits, without
  // the even one and each once. Memory is looked at with one chunk per stage; with more the bounds
  // of the search say what fits.
  std::vector<std::vector<int>> splits(const Pipeline& pipeline,
                                       const std::vector<int>& zero_stages);

  // The micro-batches of each replica by which the slowest replica takes least, where the replicas
  // lie on pools of different speed; empty: as many each.
  std::vector<int> batches(const Pipeline& pipeline);

 private:
  struct Costs;
  std::unique_ptr<Costs> costs_;
};

}  // namespace sim
