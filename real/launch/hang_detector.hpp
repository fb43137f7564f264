// Decides from heartbeats which rank hangs. A rank is silent when it neither moves on nor says that
// it waits for others; the one that has been silent longest is to blame. If all that still run only
// wait for one another, no rank is, but the run hangs all the same.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <vector>

#include "real/net/heartbeat.hpp"

namespace real {

struct HangLimits {
  std::chrono::milliseconds operators{30'000};  // in a step
  std::chrono::milliseconds phases{600'000};    // outside of steps
};

struct Hang {
  int rank = 0;
  bool waiting = false;  // it waits for others, as all do
  std::chrono::milliseconds time{};
};

class HangDetector {
 public:
  using Clock = std::chrono::steady_clock;
  HangDetector(int ranks, const HangLimits& limits, Clock::time_point now);
  // One entry per rank, and whether it has ended.
  struct Look {
    HeartbeatState state;
    bool ended = false;
  };
  std::optional<Hang> check(std::span<const Look> looks, Clock::time_point now);

 private:
  struct Seen {
    std::uint64_t progress = 0, waits = 0;
    Clock::time_point moved, alive;
  };
  HangLimits limits_;
  std::vector<Seen> seen_;
};

}  // namespace real
