// The time of a step by what had it: for the trace and for the forecast the same account, of which
// the waterfall is the difference.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "sim/explain/forecast_run.hpp"
#include "sim/explain/states.hpp"
#include "sim/explain/step_match.hpp"
#include "sim/timeline/record.hpp"

namespace sim {

// An operator of the forecast: what it has of the step, and how long it takes, hidden or not.
struct OpTime {
  Duration attributed{};  // compute, or exposed transfer
  Duration running{};     // without waiting for other ranks
  Duration waiting{};     // for other ranks, hidden or not
  Duration exposed_waiting{};
  Duration host_late{};  // of attributed, before the host issued the kernel that would hide it
  Duration beside{};     // exposed transfer beside that of another operator, which has the time
};

struct StepAccount {
  std::vector<OpTime> ops;                                               // of the program
  std::map<std::string, Duration> extra_kernels{}, extra_collectives{};  // by name
  std::map<std::string, Duration> waiting{};      // for other ranks of collectives, by operation
  std::map<std::string, Duration> messages{};     // and waiting for them, by operation
  std::array<Duration, step_state_count> rest{};  // copies and idle states
  // The same, by the operator that ran next.
  std::array<std::map<std::uint32_t, Duration>, step_state_count> rest_before{};
};

// A call, as the account sees it.
struct AccountedCall {
  std::uint32_t op = no_operator;
  bool message = false;  // or a collective over several stages
  std::string name{};
};

// measured_account() is of a step's states; `op_of`, of StepMatch, and `ready` of the activities.
StepAccount measured_account(const TracedRun& run, std::size_t rank,
                             const std::vector<StateSpan>& states, const StepMatch& match,
                             const std::vector<TimePoint>& ready, const RankSteps& steps,
                             std::size_t step, const Record& forecast, const RecordedTrack& track);

// forecast_account() is of the whole step of a track. `untold`: operators whose waiting the trace
// does not tell apart: then it counts as transfer here, too.
StepAccount forecast_account(const Record& forecast, const RecordedTrack& track,
                             const std::vector<bool>& untold);

// A message between stages, or a collective that stages wait for each other in.
bool is_between_stages(const Record& forecast, const Program& program, std::uint32_t op);

// The words for an operator: "all_gather [data]", "mlp.up backward".
std::string operation_words(const Program& program, std::uint32_t op);

}  // namespace sim
