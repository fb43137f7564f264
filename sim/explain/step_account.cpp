#include "sim/explain/step_account.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/explain/activity_class.hpp"
#include "sim/explain/gaps.hpp"

namespace sim {
namespace {

constexpr const char* end_of_step = "end of the step";

bool is_message(const TracedRun& run, const RunRank& rank, const DeviceActivity& activity) {
  if (activity.kind != OpKind::collective) return true;
  const CollectiveCall call = call_of(rank, activity);
  if (activity.call >= 0) return !call.kind;
  return run.names[activity.name].find("SendRecv") != std::string::npos;
}

AccountedCall call_of_measured(const TracedRun& run, const RunRank& rank, std::size_t activity,
                               const StepMatch& match, const Record& forecast,
                               const Program& program) {
  const DeviceActivity& of = rank.device[activity];
  AccountedCall made;
  made.op = match.op_of[activity];
  if (made.op != no_operator) {
    made.message = is_between_stages(forecast, program, made.op);
    made.name = operation_words(program, made.op);
    return made;
  }
  const CollectiveCall call = call_of(rank, of);
  made.message = is_message(run, rank, of);
  made.name = of.call >= 0
                  ? fmt::format("{} [{}]", name_of_call(call), label_of_group(run, call.group))
                  : kernel_words(run.names[of.name]);
  return made;
}

// The operator of the first kernel that begins at or after a time; no_operator: none is known.
std::uint32_t op_after(const RunRank& rank, TimePoint time, const StepMatch& match) {
  const auto next = std::lower_bound(
      rank.device.begin(), rank.device.end(), time,
      [](const DeviceActivity& activity, TimePoint at) { return activity.begin < at; });
  return next == rank.device.end()
             ? no_operator
             : match.op_of[static_cast<std::size_t>(next - rank.device.begin())];
}

// The part of a state in which the host had not yet issued the next kernel of the stream that
// computes.
Duration late_host(const RunRank& rank, std::uint32_t main_stream, const StateSpan& state) {
  const auto first = std::lower_bound(
      rank.device.begin(), rank.device.end(), state.end,
      [](const DeviceActivity& activity, TimePoint at) { return activity.begin < at; });
  const auto next = std::find_if(first, rank.device.end(), [&](const DeviceActivity& activity) {
    return activity.stream == main_stream && class_of_activity(activity) == ActivityClass::compute;
  });
  if (next == rank.device.end() || next->launch < 0) return {};
  const TimePoint issued = rank.host[static_cast<std::size_t>(next->launch)].begin;
  return std::clamp(issued - state.begin, Duration{}, state.time());
}

// One of several exposed transfers at one time has it: what the others have beside it.
void account_beside(const std::vector<DeviceActivity>& device, const std::vector<TimePoint>& ready,
                    const std::vector<std::uint32_t>& op_of, const std::vector<StateSpan>& states,
                    StepAccount& account) {
  std::vector<const StateSpan*> exposed;
  for (const StateSpan& state : states)
    if (state.state == StepState::transfer) exposed.push_back(&state);
  for (std::size_t i = 0; i < device.size(); ++i) {
    if (op_of[i] == no_operator || class_of_activity(device[i]) != ActivityClass::communication)
      continue;
    auto at = std::lower_bound(
        exposed.begin(), exposed.end(), ready[i],
        [](const StateSpan* state, TimePoint begin) { return state->end <= begin; });
    for (; at != exposed.end() && (*at)->begin < device[i].end; ++at)
      if ((*at)->activity != static_cast<std::int32_t>(i))
        account.ops[op_of[i]].beside +=
            std::min((*at)->end, device[i].end) - std::max((*at)->begin, ready[i]);
  }
}

void account_call(const AccountedCall& call, const StateSpan& state, StepAccount& account) {
  if (call.message) {
    account.messages[call.name] += state.time();
  } else if (state.state == StepState::peer) {
    account.waiting[call.name] += state.time();
    if (call.op != no_operator) account.ops[call.op].exposed_waiting += state.time();
  } else if (call.op != no_operator) {
    account.ops[call.op].attributed += state.time();
  } else {
    account.extra_collectives[call.name] += state.time();
  }
}

}  // namespace

bool is_between_stages(const Record& forecast, const Program& program, std::uint32_t op) {
  if (program.kind[op] == OpKind::send || program.kind[op] == OpKind::recv) return true;
  if (!forecast.pipeline || program.kind[op] != OpKind::collective) return false;
  const GroupRole role = program.collectives[program.work[op]].group;
  return role == GroupRole::tied_embedding || role == GroupRole::world;
}

std::string operation_words(const Program& program, std::uint32_t op) {
  if (program.kind[op] == OpKind::collective) {
    const Collective& of = program.collectives[program.work[op]];
    return fmt::format("{} [{}]", word(of.kind), word(of.group));
  }
  return fmt::format("{} {}", program.name(OpId{op}), word(program.pass[op]));
}

StepAccount measured_account(const TracedRun& run, std::size_t rank_index,
                             const std::vector<StateSpan>& states, const StepMatch& match,
                             const std::vector<TimePoint>& ready, const RankSteps& steps,
                             std::size_t step, const Record& forecast, const RecordedTrack& track) {
  const RunRank& rank = run.ranks[rank_index];
  const Program& program = forecast.programs[track.program];
  const std::uint32_t main_stream = busiest_compute_stream(rank);
  StepAccount account;
  account.ops.resize(program.size());
  for (const StateSpan& state : states) {
    if (state.state > StepState::peer) {
      const auto i = static_cast<std::size_t>(state.state);
      account.rest[i] += state.time();
      if (const std::uint32_t next = op_after(rank, state.end, match); next != no_operator)
        account.rest_before[i][next] += state.time();
      continue;
    }
    if (state.activity == not_told) {  // this rank is done, and others are not
      (forecast.pipeline ? account.messages : account.waiting)[end_of_step] += state.time();
      continue;
    }
    const auto i = static_cast<std::size_t>(state.activity);
    const std::uint32_t op = match.op_of[i];
    const bool beside = rank.device[i].stream != main_stream && state.state != StepState::peer;
    if (op != no_operator && beside)
      account.ops[op].host_late += late_host(rank, main_stream, state);
    if (state.state != StepState::compute) {
      account_call(call_of_measured(run, rank, i, match, forecast, program), state, account);
    } else if (op != no_operator)
      account.ops[op].attributed += state.time();
    else
      account.extra_kernels[kernel_words(run.names[rank.device[i].name])] += state.time();
  }
  account_beside(rank.device, ready, match.op_of, states, account);
  for (std::size_t i = 0; i < rank.device.size(); ++i) {
    if (steps.step_of[i] != static_cast<std::int32_t>(step) || match.op_of[i] == no_operator)
      continue;
    OpTime& op = account.ops[match.op_of[i]];
    op.running += rank.device[i].end - ready[i];
    op.waiting += ready[i] - rank.device[i].begin;
  }
  return account;
}

StepAccount forecast_account(const Record& forecast, const RecordedTrack& track,
                             const std::vector<bool>& untold) {
  const Program& program = forecast.programs[track.program];
  ForecastRank made = forecast_rank(forecast, track);
  StepAccount account;
  account.ops.resize(program.size());
  std::vector<std::uint32_t> op_of;
  for (std::size_t i = 0; i < made.rank.device.size(); ++i) {
    const DeviceActivity& activity = made.rank.device[i];
    const auto op = static_cast<std::size_t>(activity.planned);
    op_of.push_back(static_cast<std::uint32_t>(op));
    if (untold[op]) made.ready[i] = activity.begin;
    account.ops[op].running += activity.end - made.ready[i];
    account.ops[op].waiting += made.ready[i] - activity.begin;
  }
  const HostTroubles no_troubles{TracedRun{}, made.rank};
  const StepWindow window{"forecast", TimePoint{}, std::min(made.last, forecast.end)};
  const std::vector<StateSpan> states = states_of(made.rank, no_troubles, window, made.ready);
  account_beside(made.rank.device, made.ready, op_of, states, account);
  for (const StateSpan& state : states) {
    if (state.state > StepState::peer) {
      account.rest[static_cast<std::size_t>(state.state)] += state.time();
      continue;
    }
    const auto op = static_cast<std::uint32_t>(
        made.rank.device[static_cast<std::size_t>(state.activity)].planned);
    if (state.state == StepState::compute)
      account.ops[op].attributed += state.time();
    else
      account_call({op, is_between_stages(forecast, program, op), operation_words(program, op)},
                   state, account);
  }
  // The rank is done, and others are not.
  if (window.end < forecast.end)
    (forecast.pipeline ? account.messages : account.waiting)[end_of_step] +=
        forecast.end - window.end;
  return account;
}

}  // namespace sim
