#include "sim/scenario/read/read_training.hpp"

#include <fmt/format.h>

#include <limits>

namespace sim {
namespace {

std::string above_peak(const char* key, double value, const LearningRate& rate) {
  return fmt::format("{} is {}, above the peak; allowed: 0 to {}", key, value, rate.peak);
}

// Else a problem of its own, from which no others follow.
bool decay_is_known(const Layered& keys) {
  const ObjectReader* holder = keys.holder("decay");
  if (!holder) return true;
  const std::optional<std::string> text = holder->at("decay").peek_text();
  return text && from_word<RateDecay>(*text);
}

// Keys that have no effect, and numbers that contradict each other.
void check_learning_rate(const LearningRate& rate, const Layered& keys) {
  if (rate.initial > rate.peak) keys.problem("initial", above_peak("initial", rate.initial, rate));
  if (keys.has("initial") && rate.warmup_steps == 0)
    keys.problem("initial",
                 "initial is where a warm-up begins, and there is none; set warmup_steps, too");
  if (rate.decay == RateDecay::constant) {
    // With --set decay=constant on top, a file's decay is switched off.
    for (const char* key : {"minimum", "decay_steps"})
      if (keys.has(key) && (keys.overridden(key) || !keys.overridden("decay")))
        keys.problem(key, fmt::format("{} is of a decay, and the rate is constant; set decay to "
                                      "linear or cosine",
                                      key));
    return;
  }
  if (rate.minimum > rate.peak) keys.problem("minimum", above_peak("minimum", rate.minimum, rate));
  if (!keys.has("decay_steps"))
    keys.problem("decay",
                 "a decay needs decay_steps, the step that has the minimum (counted from 0, those "
                 "of the warm-up too); for a whole run, that is training.steps");
  else if (rate.decay_steps <= rate.warmup_steps)
    keys.problem("decay_steps",
                 fmt::format("decay_steps counts from step 0: allowed is more than the {} "
                             "warmup_steps",
                             rate.warmup_steps));
}

// A number is the peak: of a constant rate, or with --set on top of the file's schedule.
LearningRate read_learning_rate(const Layered& section) {
  constexpr RealRange rates{0, 1};
  constexpr IntegerRange counts{0, 1'000'000'000};
  LearningRate rate;
  const Layered keys = section.object("learning_rate");
  const ObjectReader* number = section.scalar_holder("learning_rate");
  if (number) rate.peak = number->real("learning_rate", rates);
  const double peak = keys.real_or("peak", rate.peak, rates);
  if (!number || !section.is_upper(number)) rate.peak = peak;
  rate.initial = keys.real_or("initial", rate.initial, rates);
  rate.warmup_steps = keys.integer_or("warmup_steps", rate.warmup_steps, counts);
  rate.decay = keys.word_or("decay", rate.decay);
  rate.minimum = keys.real_or("minimum", rate.minimum, rates);
  rate.decay_steps = keys.integer_or("decay_steps", rate.decay_steps, {1, counts.max});
  if (!keys.empty() && decay_is_known(keys)) check_learning_rate(rate, keys);
  return rate;
}

}  // namespace

Training read_training(const Layered& section) {
  Training training;
  training.steps = section.int_or("steps", training.steps, {1, 1'000'000'000});
  training.seed = static_cast<std::uint64_t>(
      section.integer_or("seed", 1, {0, std::numeric_limits<std::int64_t>::max()}));
  training.learning_rate = read_learning_rate(section);
  // At 1 a moment would never move, and its bias correction would divide by zero.
  constexpr double most = 0.9999999;
  training.beta1 = section.real_or("beta1", training.beta1, {0, most});
  training.beta2 = section.real_or("beta2", training.beta2, {0, most});
  training.epsilon = section.real_or("epsilon", training.epsilon, {1e-30, 1});
  training.weight_decay = section.real_or("weight_decay", training.weight_decay, {0, 1});
  training.clip = section.real_or("clip", training.clip, {0, 1e6});
  training.routing = section.word_or("routing", training.routing);
  return training;
}

}  // namespace sim
