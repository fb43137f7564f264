// The critical path of a step: the chain of operators and waits that ends last. To shorten anything
// off it does not shorten the step.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/words.hpp"
#include "sim/plan/plan.hpp"
#include "sim/timeline/timeline.hpp"

namespace sim {

// Why a step of the path could not begin earlier.
enum class Cause : std::uint8_t {
  start,       // it is the first
  stream,      // the operator before it on its stream
  dependency,  // an operator of another stream of its rank
  partner,     // another rank arrived last at the same collective or message
  host,        // the host had not issued it yet
};
constexpr auto words_of(Cause) {
  return std::array{Word{Cause::start, "start"}, Word{Cause::stream, "stream"},
                    Word{Cause::dependency, "dependency"}, Word{Cause::partner, "partner"},
                    Word{Cause::host, "host"}};
}

struct PathStep {
  std::uint32_t track = 0;  // index into Timeline::tracks
  OpId op{};                // that runs; of Cause::host: that waits to be issued
  TimePoint begin{}, end{};
  Cause cause = Cause::start;  // of `begin`. A gap in which the host is late is a step of its own
  bool idle = false;           // such a gap: the operator has not begun
};

// In order of time, without a gap from 0 to the end of the timeline. Between tracks it follows the
// last to arrive: the operator of another track with the same transfer time, to the picosecond.
// REQUIRES: a simulated timeline with spans of `plan`, one per operator of each track's program.
std::vector<PathStep> critical_path(const Plan& plan, const Timeline& timeline);

}  // namespace sim
