// The learning rate of every step: a linear warm-up, then a constant rate or a decay.
//
// Formula and step counter are those of Megatron-LM at d98e8a64 (OptimizerParamScheduler::get_lr
// in megatron/core/optimizer_param_scheduler.py; megatron/training/training.py:3165 and 3223 step
// the optimizer first, the schedule behind it). Step s, from 0, is trained with
//   initial + (peak - initial) s / warmup_steps           while warmup_steps > 0, s <= warmup_steps
//   peak                                                  then, where the rate is constant
//   minimum                                               from decay_steps on
//   minimum + (peak - minimum) c(r) in between, with r = (s - warmup_steps) / (decay_steps -
//   warmup_steps); c = 1 - r (linear) or (1 + cos(pi r)) / 2 (cosine; Loshchilov & Hutter 2017).
// So the first step of a warm-up from 0 moves nothing, as it does there.
#pragma once

#include <array>
#include <cstdint>

#include "sim/base/words.hpp"

namespace sim {

enum class RateDecay : std::uint8_t { constant, linear, cosine };
constexpr auto words_of(RateDecay) {
  return std::array{Word{RateDecay::constant, "constant"}, Word{RateDecay::linear, "linear"},
                    Word{RateDecay::cosine, "cosine"}};
}

struct LearningRate {
  double peak = 1e-3;
  double initial = 0;             // of step 0, where there is a warm-up
  std::int64_t warmup_steps = 0;  // 0: none
  RateDecay decay = RateDecay::constant;
  // The end of a decay. Steps count from 0, those of the warm-up too: decay_steps > warmup_steps.
  double minimum = 0;
  std::int64_t decay_steps = 0;

  bool is_constant() const { return warmup_steps == 0 && decay == RateDecay::constant; }
  double at(std::int64_t step) const;
  bool operator==(const LearningRate&) const = default;
};

}  // namespace sim
