// The state of a rank at every instant of a step. The states are disjoint and fill the step, so
// their times sum to it exactly, in integer picoseconds.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/base/words.hpp"
#include "sim/explain/arrivals.hpp"
#include "sim/explain/steps.hpp"
#include "sim/trace/traced_run.hpp"

namespace sim {

// StepState is the first of these that holds at an instant. The idle ones are told apart by what
// the host did meanwhile.
enum class StepState : std::uint8_t {
  compute,          // a kernel that is no communication runs
  transfer,         // communication that moves data, and no such kernel: it is exposed
  peer,             // communication that waits for another rank
  copy,             // a copy or a memset, and nothing else
  garbage,          // idle while the host collects garbage
  data_loading,     // idle while the host loads data
  synchronisation,  // idle since the host waited for the GPU, and issued nothing meanwhile
  host,             // idle until the host issued the next kernel
  between_kernels,  // idle though the next kernel had been issued: a start, or an event
  untold,           // idle, and the trace does not tell when the next kernel was issued
};
constexpr auto words_of(StepState) {
  return std::array{Word{StepState::compute, "compute"},
                    Word{StepState::transfer, "exposed_transfer"},
                    Word{StepState::peer, "waiting_for_peer"},
                    Word{StepState::copy, "copy"},
                    Word{StepState::garbage, "garbage_collection"},
                    Word{StepState::data_loading, "data_loading"},
                    Word{StepState::synchronisation, "synchronisation"},
                    Word{StepState::host, "host"},
                    Word{StepState::between_kernels, "between_kernels"},
                    Word{StepState::untold, "idle_not_told"}};
}
inline constexpr std::size_t step_state_count = words_of(StepState{}).size();

constexpr bool is_idle(StepState state) {
  return state >= StepState::garbage;
}

struct StateSpan {
  TimePoint begin, end;
  StepState state = StepState::untold;
  std::int32_t activity = not_told;  // of RunRank::device, that the state is of; not_told: none is
  Duration time() const { return end - begin; }
};

// The stream whose kernels compute most; 0 where none does.
std::uint32_t busiest_compute_stream(const RunRank& rank);

class HostTroubles;

// states_of() covers the window from its begin to its end without a gap. `troubles`: of the rank.
// `ready`: of its activities (Arrivals::ready). Of several activities that run, the first to begin
// has the instant; kernels of the stream that computes most come before those of others. A rank
// that has nothing more to do waits for the others, until `done`.
std::vector<StateSpan> states_of(const RunRank& rank, const HostTroubles& troubles,
                                 const StepWindow& window, const std::vector<TimePoint>& ready,
                                 TimePoint done = TimePoint::min());

}  // namespace sim
