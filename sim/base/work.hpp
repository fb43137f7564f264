// Counts of the work that this process has done: exact, and the same on every machine with the same
// number of threads. Golden files of them show when a command comes to do more (tests/golden).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "sim/base/words.hpp"

namespace sim {

enum class Work : std::uint8_t {
  operators_planned,   // of distinct programs
  groups_wired,        // communicators whose links were looked for
  events_simulated,    // by the event engine
  events_jumped,       // known from an earlier period, so not simulated
  operators_replayed,  // by the replays of memory allocators
  layouts_evaluated,   // by searches: planned, and simulated where they fit
  rows_forecast,       // of measured runs
};
constexpr auto words_of(Work) {
  return std::array{Word{Work::operators_planned, "operators planned"},
                    Word{Work::groups_wired, "groups wired"},
                    Word{Work::events_simulated, "events simulated"},
                    Word{Work::events_jumped, "events jumped"},
                    Word{Work::operators_replayed, "operators replayed"},
                    Word{Work::layouts_evaluated, "layouts evaluated"},
                    Word{Work::rows_forecast, "rows forecast"}};
}

using WorkCounts = std::array<std::atomic<std::uint64_t>, words_of(Work{}).size()>;
// The counters of the process, from any thread. Nothing that is computed depends on them.
inline constinit WorkCounts work_counts{};

inline void count_work(Work work, std::uint64_t amount) {
  work_counts[static_cast<std::size_t>(work)].fetch_add(amount, std::memory_order_relaxed);
}

}  // namespace sim
