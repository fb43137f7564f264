// Makes the spans of a rank comparable with those of the others, after a step.
#pragma once

#include <cstdint>
#include <vector>

#include "real/engine/bound_program.hpp"
#include "real/host/communication.hpp"
#include "real/net/heartbeat.hpp"
#include "real/net/transport.hpp"
#include "sim/timeline/timeline.hpp"

namespace real {

struct ArrivalParts {
  const BoundProgram& program;
  const Communication& communication;
  Transport& transport;
  Heartbeat* heartbeat;
};

// When an operator began, had all its partners, and ended: nanoseconds on the machine's steady
// clock.
struct Moments {
  std::int64_t begin = 0, active = 0, end = 0;
};

// Ranks tell each other when they arrived at each operator that they share, so that `active` of a
// span is when the last of them had; and when they started, so that times count from the first
// start. All ranks call it. Clocks must be one: ranks of one machine.
std::vector<sim::Span> share_arrivals(const ArrivalParts& parts, std::int64_t start,
                                      std::vector<Moments> moments);

}  // namespace real
