// Lower bounds on what a candidate takes and needs. BOUNDS.md proves that they are.
#pragma once

#include <memory>
#include <vector>

#include "sim/search/candidates.hpp"

namespace sim {

struct Bound {
  Duration step_time{};
  Bytes memory{};  // of the fullest GPU, with what the device keeps for itself
  Bytes host{};    // of the fullest node's host
};

class Bounds {
 public:
  Bounds(const SearchSpecification& specification, const Candidates& candidates);
  ~Bounds();

  // coarse() bounds every candidate of a pipeline, cheaply: it ignores how parameters travel. It
  // appends nothing; it fills `bounds` from Pipeline::first on. Thread-safe for different
  // pipelines.
  void coarse(std::uint32_t pipeline, std::vector<Bound>& bounds) const;
  // fine() bounds one candidate by its schedule slot by slot, its messages and its reductions.
  // Thread-safe.
  Bound fine(std::uint32_t index) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace sim
