// Where the time of a step went on one rank.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "sim/explain/states.hpp"

namespace sim {

// StateTimes are times by state. They sum to the step exactly.
struct StateTimes {
  std::array<Duration, step_state_count> by_state{};
  Duration& operator[](StepState state) { return by_state[static_cast<std::size_t>(state)]; }
  Duration operator[](StepState state) const { return by_state[static_cast<std::size_t>(state)]; }
  Duration total() const;
  Duration exposed() const { return (*this)[StepState::transfer] + (*this)[StepState::peer]; }
  Duration idle() const;
  StateTimes& operator+=(const StateTimes& other);
  bool operator==(const StateTimes&) const = default;
};

struct RankStep {
  std::size_t rank = 0;  // into TracedRun::ranks
  std::size_t step = 0;  // into the windows of the rank
  StepWindow window{};
  StateTimes parts{};
  Duration communication{};                      // while any is under way, hidden or not
  std::map<std::string, Duration> exposed{};     // transfer and waiting, by the label of the group
  std::map<std::size_t, Duration> waited_for{};  // exposed waiting, by the rank that came last
  bool first = false;  // much longer than the median, at the begin of the trace: left out of means
};

// A first step that takes so many times the median is one of those that warm up.
inline constexpr double warm_up_factor = 1.25;

// rank_steps() has all steps of all ranks: rank after rank.
std::vector<RankStep> rank_steps(const TracedRun& run, const RunSteps& steps,
                                 const Arrivals& arrivals);

}  // namespace sim
