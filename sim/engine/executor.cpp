#include "sim/engine/executor.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>
#include <utility>

#include "sim/engine/least_left.hpp"

namespace sim {
namespace {

std::vector<std::int64_t> capacities_of(const System& system) {
  std::vector<std::int64_t> capacities;
  capacities.reserve(system.resources.size());
  for (const Resource& resource : system.resources)
    capacities.push_back(resource.capacity);
  return capacities;
}

}  // namespace

Executor::Executor(const ExecutorInput& input, std::span<const std::uint32_t> recorded,
                   StepwiseRuns* stepwise)
    : input_{input},
      system_{input.system},
      sharing_{capacities_of(input.system)},
      stepwise_{stepwise},
      message_bytes_(system_.resources.size(), 0),
      slots_(system_.slots.size()),
      hosts_(system_.slots.size()),
      record_of_(system_.slots.size(), no_record),
      late_(system_.slots.size()),
      channels_(system_.channels.size()),
      totals_(system_.costs.size()),
      pattern_bytes_(system_.patterns.size(), 0),
      pattern_busy_(system_.patterns.size()),
      spans_(recorded.size()) {
  for (std::size_t v = 0; v < system_.variants.size(); ++v) {
    const std::uint32_t program = system_.variants[v].program;
    works_.push_back({.program = &input_.programs[program],
                      .index = &input_.indexes[input_.index_of[v]],
                      .lane = &input_.lanes[v]});
  }
  for (std::size_t slot = 0; slot < slots_.size(); ++slot)
    slots_[slot].variant = system_.slots[slot].variant;
  for (std::size_t i = 0; i < recorded.size(); ++i) {
    record_of_[recorded[i]] = static_cast<std::uint32_t>(i);
    spans_[i].resize(program_of(recorded[i]).size());
  }
}

void Executor::run(const Control& control) {
  constexpr std::uint64_t events_between_looks = 4096;  // about a millisecond
  std::uint64_t next_look = 0;
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot)
    advance(slot, index_of(slot).used_streams);
  settle();
  prepare_jumps();
  prepare_limit();
  std::vector<Event> instant;
  while (!queue_.empty() && !beyond_limit_) {
    queue_.take_instant(instant);
    events_ += instant.size();
    if (events_ >= next_look) {
      throw_if_stopped(control);
      next_look = events_ + events_between_looks;
    }
    for (const Event& event : instant)
      handle(event);
    settle();
    if (slots_[0].done[compute] >= next_milestone_) look_for_period();
  }
  if (beyond_limit_) {
    end_ = *beyond_limit_;
    return;
  }
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot)
    for (std::uint32_t stream = 0; stream < stream_count; ++stream)
      if (slots_[slot].done[stream] < index_of(slot).order[stream].size()) report_deadlock();
}

void Executor::prepare_limit() {
  if (!input_.limit || input_.jitter > 0 || stepwise_ != nullptr) return;
  least_left_ = least_left(input_);
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot)
    look_at_limit(slot);
}

// Whether the slot, that has just finished some of its kernels, can still be done by then. Rounded
// sums may be too long by a picosecond per operator.
void Executor::look_at_limit(std::uint32_t slot) {
  if (least_left_.empty() || least_left_[slot].empty()) return;
  const std::int64_t left = least_left_[slot][slots_[slot].done[compute]];
  const auto rounding = static_cast<std::int64_t>(program_of(slot).size());
  const TimePoint least = now() + Duration{left - rounding};
  if (least.time_since_epoch() <= *input_.limit) return;
  beyond_limit_ = least;
}

void Executor::handle(const Event& event) {
  const std::uint32_t subject = event.subject;
  switch (event.kind()) {
    case EventKind::kernel_end:
      if (event.is_current(slots_[subject].epoch)) end_phase(subject);
      return;
    case EventKind::latency_paid:
      if (activities_[subject].kind == ActivityKind::message)
        start_message(subject);
      else
        start_transfer(subject);
      return;
    case EventKind::transfer_end:
      if (!event.is_current(activities_[subject].epoch)) return;
      if (activities_[subject].kind == ActivityKind::message)
        end_message(subject);
      else if (activities_[subject].kind == ActivityKind::side_kernel)
        end_side_kernel(subject);
      else
        end_activity(subject);
      return;
    case EventKind::host_wakeup:
      advance(subject, std::exchange(slots_[subject].host_waiting, std::uint16_t{0}));
      return;
  }
}

void Executor::settle() {
  for (const LinkSharing::Change& change : sharing_.settle(now())) {
    Activity& activity = activities_[change.id];
    ++activity.epoch;
    if (change.end != TimePoint::max())
      queue_.schedule({change.end, EventKind::transfer_end, change.id, activity.epoch});
    if (activity.kind == ActivityKind::message) continue;
    const CommCost& cost = system_.costs[activity.cell];
    const std::int64_t level = sharing_.level(change.id);
    const std::int64_t memory =
        level == cost.rate
            ? cost.memory
            : static_cast<std::int64_t>(static_cast<WideInt>(cost.memory) * level / cost.rate);
    if (memory == activity.memory_held) continue;
    hold_devices(activity, 0, memory - activity.memory_held);
    activity.memory_held = memory;
  }
  for (const std::uint32_t slot : touched_) {
    slots_[slot].touched = false;
    reshare_device(slot);
  }
  touched_.clear();
}

void Executor::advance(std::uint32_t slot, std::uint32_t streams) {
  for (; streams != 0; streams &= streams - 1)
    try_start(slot, static_cast<std::uint32_t>(std::countr_zero(streams)));
}

// The stream of a dependency that has not finished, or no_stream.
std::uint32_t Executor::blocking_stream(const SlotState& state, const Program& program,
                                        const ProgramIndex& index, OpId op) const {
  const std::uint32_t last = program.first_dependency[op.value + 1];
  for (std::uint32_t d = program.first_dependency[op.value]; d < last; ++d) {
    const StreamPosition needed = index.dependency[d];
    if (state.done[needed.stream] <= needed.position) return needed.stream;
  }
  return no_stream;
}

void Executor::try_start(std::uint32_t slot, std::uint32_t stream) {
  SlotState& state = slots_[slot];
  const ProgramIndex& index = index_of(slot);
  const std::vector<OpId>& order = index.order[stream];
  if (state.done[stream] >= order.size()) return;
  const OpId op = order[state.done[stream]];
  const Program& program = program_of(slot);
  const std::uint32_t blocking = blocking_stream(state, program, index, op);
  if (blocking != no_stream) {
    wait_for(slot, blocking, stream);
    return;
  }
  const TimePoint issued = issued_at(slot, op, index.issued[op.value]);
  if (issued > now()) return wait_for_host(slot, stream, issued);
  if (stream == compute)
    start_kernels(slot);
  else if (runs_kernel(program.kind[op.value]))
    start_side_kernel(slot, static_cast<Stream>(stream), op);
  else
    launch(slot, static_cast<Stream>(stream), op);
}

// `stream` is asked again when an operator of the other has finished.
void Executor::wait_for(std::uint32_t slot, std::uint32_t other, std::uint32_t stream) {
  std::uint16_t& waiters = slots_[slot].waiters[other];
  waiters = static_cast<std::uint16_t>(waiters | 1U << stream);
}

// `issued`: from the begin of its phase on. An operator of a later phase has no time yet.
TimePoint Executor::issued_at(std::uint32_t slot, OpId op, std::int64_t issued) const {
  const std::uint32_t phase = index_of(slot).phase[op.value];
  const HostState& host = hosts_[slot];
  if (phase > host.phase) return TimePoint::max();
  return phase < host.phase ? TimePoint{} : host.begun + Duration{issued};
}

// Waits until `issued`, or a later phase of the host.
void Executor::wait_for_host(std::uint32_t slot, std::uint32_t stream, TimePoint issued) {
  SlotState& state = slots_[slot];
  ++hosts_[slot].waits;
  state.host_waiting = static_cast<std::uint16_t>(state.host_waiting | 1U << stream);
  TimePoint& wakeup = hosts_[slot].wakeup;
  // A wakeup that is due until then asks all streams again. A second one would only do so too, and
  // each of the two for the operators behind: without end, their number doubles.
  if (issued == TimePoint::max() || (wakeup > now() && wakeup <= issued)) return;
  wakeup = issued;
  queue_.schedule({issued, EventKind::host_wakeup, slot});
}

// When what its phase needs is done: `stream` has just been.
void Executor::let_host_go_on(std::uint32_t slot, std::uint32_t stream) {
  HostState& host = hosts_[slot];
  SlotState& state = slots_[slot];
  const std::vector<HostPhase>& phases = index_of(slot).phases;
  while (host.phase < phases.size()) {
    const HostPhase& phase = phases[host.phase];
    for (std::size_t s = 0; s < stream_count; ++s)
      if (state.done[s] < phase.needed[s]) return;
    host.begun = std::max(host.begun + Duration{phase.length}, now());
    ++host.phase;
    std::uint16_t& waiters = state.waiters[stream];
    waiters = static_cast<std::uint16_t>(waiters | std::exchange(state.host_waiting, 0));
  }
}

void Executor::finish(std::uint32_t slot, std::uint32_t stream) {
  SlotState& state = slots_[slot];
  ++state.done[stream];
  ++finished_operators_;
  let_host_go_on(slot, stream);
}

// The streams that may go on now that an operator of `stream` has finished.
std::uint32_t Executor::woken_by(std::uint32_t slot, std::uint32_t stream) {
  return std::exchange(slots_[slot].waiters[stream], std::uint16_t{0}) | 1U << stream;
}

std::vector<Bytes> Executor::carried() const {
  std::vector<WideInt> sums = message_bytes_;
  for (std::size_t p = 0; p < system_.patterns.size(); ++p)
    for (const ResourceUse& use : system_.uses_of(system_.patterns[p]))
      sums[use.resource] += static_cast<WideInt>(use.weight) * pattern_bytes_[p];
  std::vector<Bytes> carried;
  carried.reserve(sums.size());
  for (const WideInt sum : sums)
    carried.emplace_back(static_cast<std::int64_t>(sum >> 16));
  return carried;
}

std::vector<Duration> Executor::busy() const {
  std::vector<Duration> busy;
  busy.reserve(system_.resources.size());
  for (std::uint32_t r = 0; r < system_.resources.size(); ++r)
    busy.push_back(sharing_.busy(r));
  for (std::size_t p = 0; p < system_.patterns.size(); ++p)
    for (const ResourceUse& use : system_.own_uses_of(system_.patterns[p]))
      busy[use.resource] += pattern_busy_[p];
  return busy;
}

void Executor::report_deadlock() const {
  std::string text = "the plan deadlocks:";
  int named = 0;
  for (std::uint32_t slot = 0; slot < slots_.size() && named < 8; ++slot) {
    const Program& program = program_of(slot);
    for (std::uint32_t stream = 0; stream < stream_count && named < 8; ++stream) {
      const std::vector<OpId>& order = index_of(slot).order[stream];
      const std::uint32_t done = slots_[slot].done[stream];
      if (done >= order.size()) continue;
      const bool started =
          blocking_stream(slots_[slot], program, index_of(slot), order[done]) == no_stream;
      text += "\n  rank " + std::to_string(system_.slots[slot].rank.value) + " on " +
              std::string{word(static_cast<Stream>(stream))} + ": " + program.name(order[done]) +
              (started ? " waits for its partners or a dead link"
                       : " waits for an operator on another stream");
      ++named;
    }
  }
  throw std::runtime_error(text);
}

}  // namespace sim
