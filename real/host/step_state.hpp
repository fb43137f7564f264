// What a step hands to its operators, and the numbers that they leave outside the arena.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "real/engine/backend.hpp"

namespace real {

struct StepState {
  std::int64_t step = 0;
  std::int64_t tokens = 0;                    // of a micro-batch
  std::vector<std::int32_t> inputs, targets;  // [micro-batch][token]
  std::vector<double> loss;                   // per micro-batch: mean over its tokens
  // Squares of this rank's gradients, then of all ranks'.
  float square_sum = 0;

  std::span<const std::int32_t> inputs_of(std::int32_t microbatch) const {
    return slice(inputs, microbatch);
  }
  std::span<const std::int32_t> targets_of(std::int32_t microbatch) const {
    return slice(targets, microbatch);
  }
  double& loss_of(std::int32_t microbatch) { return loss.at(static_cast<std::size_t>(microbatch)); }

  // Cuts rows of sequence + 1 ids into inputs and targets.
  void begin(const StepInput& input, const sim::Layout& layout);

 private:
  std::span<const std::int32_t> slice(const std::vector<std::int32_t>& all,
                                      std::int32_t microbatch) const {
    return std::span{all}.subspan(static_cast<std::size_t>(microbatch * tokens),
                                  static_cast<std::size_t>(tokens));
  }
};

}  // namespace real
