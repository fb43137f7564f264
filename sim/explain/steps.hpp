// The steps of a traced run: where one ends and the next begins, on every rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/words.hpp"
#include "sim/trace/traced_run.hpp"

namespace sim {

struct StepWindow {
  std::string name;  // "ProfilerStep#7"; of steps that are not marked: "step 1"
  TimePoint begin, end;
  Duration time() const { return end - begin; }
};

struct RankSteps {
  std::vector<StepWindow> windows;    // ascending; they do not overlap
  std::vector<std::int32_t> step_of;  // of each activity of the rank: into `windows`, or not_told
};

// StepsBy says how steps were told apart: by marks of the trace, by kernels that recur, or not at
// all, so that the trace is one step.
enum class StepsBy : std::uint8_t { marks, recurrence, whole };
constexpr auto words_of(StepsBy) {
  return std::array{Word{StepsBy::marks, "marks"}, Word{StepsBy::recurrence, "recurrence"},
                    Word{StepsBy::whole, "whole"}};
}

// All ranks have the same steps, in the same order.
struct RunSteps {
  StepsBy by = StepsBy::whole;
  std::vector<RankSteps> ranks;  // of TracedRun::ranks
  std::vector<std::string> notes;
  std::size_t count() const { return ranks.empty() ? 0 : ranks.front().windows.size(); }
};

// A marked step begins when the host has begun it and the device has finished the kernels that the
// steps before it issued: a host that runs ahead does not move work from one step into another.
// REQUIRES: a rank with activities.
RunSteps find_steps(const TracedRun& run);

// A period of a sequence: entries from `first` on recur every `length`, `times` times.
struct Recurrence {
  std::size_t first = 0, length = 0, times = 0;
};
// find_recurrence() looks for the longest thing that recurs: candidates are the distances of the
// rarest names, since a kernel of the optimizer runs once a step and one of a layer often. At least
// 19 of 20 entries must be the same one period later. `times` is 0 where there is none.
Recurrence find_recurrence(const std::vector<std::uint32_t>& names);

}  // namespace sim
