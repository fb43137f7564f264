// Whether the times of several ranks are of one clock.
#pragma once

#include <vector>

#include "sim/trace/traced_run.hpp"

namespace sim {

enum class ClockAgreement : std::uint8_t { agree, disagree, unknown };

// Clocks agree where no rank leaves a collective before another has entered it: all-reduce,
// reduce-scatter, all-gather and all-to-all need data of every rank. Calls of a group whose ranks
// are told are matched by their order, where all have as many. Unknown: no call has two ranks.
ClockAgreement clocks_agree(const std::vector<RunRank>& ranks,
                            const std::vector<TracedGroup>& groups);

// Moves all times of a rank.
void shift(RunRank& rank, Duration by);

// The first time of a rank; zero of one that has none.
TimePoint first_time(const RunRank& rank);

}  // namespace sim
