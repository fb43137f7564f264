// The learning rate against Megatron-LM's own schedule, written out a second time, and by hand.
#include "sim/layout/learning_rate.hpp"

#include <cmath>

#include "tests/catch.hpp"

using namespace sim;

namespace {

// OptimizerParamScheduler of Megatron-LM at d98e8a64 (megatron/core/optimizer_param_scheduler.py)
// in its own terms: it counts samples, `step` is called behind each update with the global batch.
class Scheduler {
 public:
  Scheduler(const LearningRate& rate, double global_batch)
      : rate_{rate},
        warmup_{static_cast<double>(rate.warmup_steps) * global_batch},
        decay_{static_cast<double>(rate.decay_steps) * global_batch} {}

  void step(double increment) { num_steps_ += increment; }
  double lr() const {
    if (warmup_ > 0 && num_steps_ <= warmup_)
      return rate_.initial + (rate_.peak - rate_.initial) * num_steps_ / warmup_;
    if (rate_.decay == RateDecay::constant) return rate_.peak;
    if (num_steps_ > decay_) return rate_.minimum;
    const double decay_ratio = (num_steps_ - warmup_) / (decay_ - warmup_);
    double coeff = 0;
    if (rate_.decay == RateDecay::linear) coeff = 1.0 - decay_ratio;
    if (rate_.decay == RateDecay::cosine) coeff = 0.5 * (std::cos(M_PI * decay_ratio) + 1.0);
    return rate_.minimum + coeff * (rate_.peak - rate_.minimum);
  }

 private:
  LearningRate rate_;
  double warmup_, decay_, num_steps_ = 0;
};

}  // namespace

TEST_CASE("every step has the learning rate that Megatron-LM gives it", "[learning_rate]") {
  const RateDecay decay = GENERATE(RateDecay::constant, RateDecay::linear, RateDecay::cosine);
  const std::int64_t warmup = GENERATE(0, 1, 7, 39);
  const double initial = GENERATE(0.0, 1e-5);
  const double minimum = GENERATE(0.0, 3e-5);
  CAPTURE(word(decay), warmup, initial, minimum);
  const LearningRate rate{.peak = 3e-4,
                          .initial = initial,
                          .warmup_steps = warmup,
                          .decay = decay,
                          .minimum = minimum,
                          .decay_steps = 40};
  const double global_batch = 96;
  Scheduler scheduler{rate, global_batch};
  for (std::int64_t step = 0; step < 60; ++step) {
    CAPTURE(step);
    CHECK(std::abs(rate.at(step) - scheduler.lr()) <= 1e-15 * rate.peak);
    scheduler.step(global_batch);
  }
}

TEST_CASE("a schedule by hand: up to the peak, half-way in the middle, the minimum at the end",
          "[learning_rate]") {
  const LearningRate rate{
      .peak = 1, .warmup_steps = 4, .decay = RateDecay::cosine, .minimum = 0.5, .decay_steps = 12};
  CHECK(rate.at(0) == 0);
  CHECK(rate.at(1) == 0.25);
  CHECK(rate.at(4) == 1);
  // A quarter of the decay: (1 + cos(45 degrees)) / 2 of the way.
  CHECK(std::abs(rate.at(6) - (0.5 + 0.5 * (1 + std::sqrt(0.5)) / 2)) < 1e-15);
  CHECK(std::abs(rate.at(8) - 0.75) < 1e-15);
  CHECK(rate.at(12) == 0.5);
  CHECK(rate.at(1'000'000'000) == 0.5);
  CHECK_FALSE(rate.is_constant());
  CHECK(LearningRate{.peak = 2}.is_constant());
  CHECK(LearningRate{.peak = 2}.at(0) == 2);
}
