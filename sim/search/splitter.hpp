// Splits of a model's layers over pipeline stages that are balanced by what its blocks cost.
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

 private:
  struct Costs;
  std::unique_ptr<Costs> costs_;
};

}  // namespace sim
