#include "real/launch/hang_detector.hpp"

#include <algorithm>

namespace real {

HangDetector::HangDetector(int ranks, const HangLimits& limits, Clock::time_point now)
    : limits_{limits}, seen_(static_cast<std::size_t>(ranks), Seen{.moved = now, .alive = now}) {}

std::optional<Hang> HangDetector::check(std::span<const Look> looks, Clock::time_point now) {
  std::optional<Hang> silent;
  std::optional<Hang> stuck;
  bool all_wait = true;
  for (std::size_t rank = 0; rank < seen_.size(); ++rank) {
    const Look& look = looks[rank];
    Seen& seen = seen_[rank];
    if (look.ended) continue;
    if (look.state.progress != seen.progress) seen.moved = seen.alive = now;
    if (look.state.waits != seen.waits) seen.alive = now;
    seen.progress = look.state.progress;
    seen.waits = look.state.waits;
    const auto limit = look.state.phase == RankPhase::step ? limits_.operators : limits_.phases;
    const auto quiet = std::chrono::floor<std::chrono::milliseconds>(now - seen.alive);
    const auto still = std::chrono::floor<std::chrono::milliseconds>(now - seen.moved);
    if (quiet >= limit && (!silent || quiet > silent->time))
      silent = {.rank = static_cast<int>(rank), .time = quiet};
    if (still < limit) all_wait = false;
    if (still >= limit && (!stuck || still > stuck->time))
      stuck = {.rank = static_cast<int>(rank), .waiting = true, .time = still};
  }
  if (silent) return silent;
  return all_wait ? stuck : std::nullopt;
}

}  // namespace real
