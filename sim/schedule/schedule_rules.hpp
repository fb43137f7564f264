// ScheduleRules are the demands of each pipeline schedule on a layout, and what follows from it:
// one row per schedule.
#pragma once

#include <array>
#include <cstdint>

#include "sim/layout/layout.hpp"

namespace sim {

// Model chunks of a rank: one; virtual_stages of them in a loop; two in a V (placement.hpp).
enum class RankChunks : std::uint8_t { one, loop, v };

struct ScheduleRules {
  Schedule schedule = Schedule::one_f_one_b;
  RankChunks chunks = RankChunks::one;
  int least_chunks = 1;          // per rank
  bool splits_backward = false;  // gradients of weights are a pass of their own
  bool sends_beside = false;  // needs overlap.pipeline; messages may wait long until they are used
  bool whole_rounds = false;  // micro-batches are a multiple of the stages
  int batches_per_stage = 0;  // at least so many
};

inline constexpr std::array schedule_rules{
    ScheduleRules{.schedule = Schedule::gpipe},
    ScheduleRules{.schedule = Schedule::one_f_one_b},
    ScheduleRules{
        .schedule = Schedule::interleaved, .chunks = RankChunks::loop, .whole_rounds = true},
    ScheduleRules{.schedule = Schedule::zb_h1, .splits_backward = true},
    ScheduleRules{.schedule = Schedule::interleaved_zb,
                  .chunks = RankChunks::loop,
                  .least_chunks = 2,
                  .splits_backward = true,
                  .sends_beside = true,
                  .whole_rounds = true},
    ScheduleRules{.schedule = Schedule::zb_v,
                  .chunks = RankChunks::v,
                  .least_chunks = 2,
                  .splits_backward = true,
                  .sends_beside = true},
    ScheduleRules{.schedule = Schedule::v_half,
                  .chunks = RankChunks::v,
                  .least_chunks = 2,
                  .splits_backward = true,
                  .sends_beside = true},
    ScheduleRules{.schedule = Schedule::v_min,
                  .chunks = RankChunks::v,
                  .least_chunks = 2,
                  .splits_backward = true,
                  .sends_beside = true},
    ScheduleRules{.schedule = Schedule::dual_pipe_v,
                  .chunks = RankChunks::v,
                  .least_chunks = 2,
                  .splits_backward = true,
                  .sends_beside = true,
                  .batches_per_stage = 2},
};
static_assert(schedule_rules.size() == words_of(Schedule{}).size());

constexpr const ScheduleRules& rules_of(Schedule schedule) {
  for (const ScheduleRules& rules : schedule_rules)
    if (rules.schedule == schedule) return rules;
  return schedule_rules.front();
}

constexpr bool splits_backward(Schedule schedule) {
  return rules_of(schedule).splits_backward;
}
constexpr bool is_v_shaped(Schedule schedule) {
  return rules_of(schedule).chunks == RankChunks::v;
}
constexpr bool is_interleaved(Schedule schedule) {
  return rules_of(schedule).chunks == RankChunks::loop;
}

}  // namespace sim
