// Events of a played run, drawn from random numbers of its own.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/economics/node_pool.hpp"

namespace sim::happenings {

inline constexpr double infinite = std::numeric_limits<double>::infinity();

// Happening is what may happen to a run, each kind from random numbers of its own.
enum class Happening : std::uint8_t {
  failure,
  preemption,
  slow_node,
  of_software,
  partner,
  repair,
  corruption
};

// Random numbers of one kind, one after the other.
class Draws {
 public:
  Draws(std::uint64_t seed, std::uint64_t run, Happening kind)
      : seed_{hash_combine(seed, static_cast<std::uint64_t>(kind))}, run_{run} {}
  double uniform() { return sim::uniform(seed_, run_, count_++); }
  double exponential() { return -std::log(uniform()); }

 private:
  std::uint64_t seed_, run_, count_ = 0;
};

// Times of the happenings of one kind. Between failures: Weibull, whose scale is chosen for the
// mean; the clock is set anew at each failure. An exponential one is a Weibull one of shape 1.
class Occurrences {
 public:
  Occurrences(Seconds every, double shape, std::uint64_t seed, std::uint64_t run, Happening kind)
      : every_{every.count() / std::tgamma(1 + 1 / shape)},
        inverse_shape_{1 / shape},
        draws_{seed, run, kind} {
    if (std::isinf(every_)) return;
    next_ = draw();
  }
  double next() const { return next_; }
  void pass() { next_ += draw(); }
  // Nothing happens for that long.
  void delay(double time) { next_ += time; }

 private:
  double draw() {
    const double exponential = draws_.exponential();
    return every_ * (inverse_shape_ == 1 ? exponential : std::pow(exponential, inverse_shape_));
  }
  double every_, inverse_shape_;
  Draws draws_;
  double next_ = infinite;
};

// The nodes that are away, by the time at which each is back.
class Away {
 public:
  Away(const NodePool& pool, std::uint64_t seed, std::uint64_t run)
      : pool_{pool}, draws_{seed, run, Happening::repair} {}
  double speed() const { return pool_.speed(back_.size()); }
  bool too_few() const { return back_.size() > static_cast<std::size_t>(pool_.spares); }
  // When the job's speed changes next.
  double change() const { return too_few() ? back_.top() : infinite; }
  // Those that are back by then; how many of them the job had gone on without.
  int take_back(double now) {
    int missed = 0;
    for (; !back_.empty() && back_.top() <= now; back_.pop())
      missed += too_few() ? 1 : 0;
    return missed;
  }
  // When the job has enough nodes after it lost one.
  double lose(double now) {
    if (!pool_.limited) return now;
    take_back(now);
    back_.push(now + pool_.repair.count() * draws_.exponential());
    if (back_.size() <= pool_.most_away()) return now;
    const double until = back_.top();
    back_.pop();
    return until;
  }

 private:
  const NodePool& pool_;
  Draws draws_;
  std::priority_queue<double, std::vector<double>, std::greater<>> back_;
};

}  // namespace sim::happenings
