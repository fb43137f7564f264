// How long the operators take that a trace and its forecast both have, by what scales them.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "sim/base/time_factors.hpp"
#include "sim/explain/step_account.hpp"

namespace sim {

// Times while they run, hidden or not, without waiting for other ranks.
struct MatchedTime {
  Duration measured{}, forecast{};
  bool operator==(const MatchedTime&) const = default;
};
using MatchedTimes = std::array<MatchedTime, time_factor_fields.size()>;  // by TimeFactors

// measured_factor() is what the part takes over its forecast; nothing where it is less than 1 % of
// the forecast step: that would say more of the trace's clock than of the machine.
std::optional<double> measured_factor(const MatchedTime& time, Duration step);

// matched_times() sums over matched operators. Host and pipeline stay zero: what a host needs, and
// a message without its waiting, a step does not show.
MatchedTimes matched_times(const StepAccount& measured, const StepAccount& forecast,
                           const Program& program, const std::vector<bool>& matched_ops);

}  // namespace sim
