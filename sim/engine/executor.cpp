#include "sim/engine/executor.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/base/random.hpp"

namespace sim {
namespace {

constexpr auto compute = static_cast<std::uint32_t>(Stream::compute);
constexpr std::uint64_t full_speed = std::uint64_t{1} << 32;

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
      channels_(system_.channels.size()),
      totals_(system_.costs.size()),
      pattern_bytes_(system_.patterns.size(), 0),
      spans_(recorded.size()) {
  for (std::size_t i = 0; i < recorded.size(); ++i) {
    slots_[recorded[i]].record = static_cast<std::uint32_t>(i);
    spans_[i].resize(input_.programs[system_.slots[recorded[i]].program].size());
  }
}

const ProgramIndex& Executor::index_of(std::uint32_t slot) const {
  return input_.indexes[system_.slots[slot].program];
}

const LaneCosts& Executor::lane_of(std::uint32_t slot) const {
  return input_.lanes[system_.slots[slot].variant];
}

void Executor::run() {
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot)
    advance(slot, index_of(slot).used_streams);
  settle();
  std::vector<Event> instant;
  while (!queue_.empty()) {
    queue_.take_instant(instant);
    events_ += instant.size();
    for (const Event& event : instant)
      handle(event);
    settle();
  }
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot)
    for (std::uint32_t stream = 0; stream < stream_count; ++stream)
      if (slots_[slot].done[stream] < index_of(slot).order[stream].size()) report_deadlock();
}

void Executor::handle(const Event& event) {
  const std::uint32_t subject = event.subject;
  switch (event.kind()) {
    case EventKind::kernel_end:
      if (event.speaks_for(slots_[subject].epoch)) end_kernels(subject);
      return;
    case EventKind::latency_paid:
      if (activities_pool_[subject].is_message)
        start_message(subject);
      else
        start_transfer(subject);
      return;
    case EventKind::transfer_end:
      if (!event.speaks_for(activities_pool_[subject].epoch)) return;
      if (activities_pool_[subject].is_message)
        end_message(subject);
      else if (activities_pool_[subject].is_side_kernel)
        end_side_kernel(subject);
      else
        end_activity(subject);
      return;
    case EventKind::host_wakeup:
      advance(subject, std::exchange(slots_[subject].host_waiting, 0));
      return;
  }
}

void Executor::settle() {
  for (const LinkSharing::Change& change : sharing_.settle(now())) {
    Activity& activity = activities_pool_[change.id];
    ++activity.epoch;
    if (change.end != TimePoint::max())
      queue_.schedule({change.end, EventKind::transfer_end, change.id, activity.epoch});
    if (activity.is_message) continue;
    const CommCost& cost = system_.costs[activity.cell];
    const auto memory = static_cast<std::int64_t>(static_cast<WideInt>(cost.memory) *
                                                  sharing_.level(change.id) / cost.rate);
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

// --- streams -------------------------------------------------------------------------------------

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
  const Program& program = input_.programs[system_.slots[slot].program];
  const std::uint32_t blocking = blocking_stream(state, program, index, op);
  if (blocking != no_stream) {
    state.waiters[blocking] = static_cast<std::uint8_t>(state.waiters[blocking] | 1U << stream);
    return;
  }
  const TimePoint issued{Duration{index.issued[op.value]}};
  if (issued > now()) {
    state.host_waiting |= 1U << stream;
    queue_.schedule({issued, EventKind::host_wakeup, slot});
    return;
  }
  if (stream == compute)
    start_kernels(slot);
  else if (runs_kernel(program.kind[op.value]))
    start_side_kernel(slot, static_cast<Stream>(stream), op);
  else
    arrive(slot, static_cast<Stream>(stream), op);
}

void Executor::finish(std::uint32_t slot, std::uint32_t stream) {
  SlotState& state = slots_[slot];
  ++state.done[stream];
  ++activities_;
}

// The streams that may go on now that an operator of `stream` has finished.
std::uint32_t Executor::woken_by(std::uint32_t slot, std::uint32_t stream) {
  return std::exchange(slots_[slot].waiters[stream], std::uint8_t{0}) | 1U << stream;
}

// --- kernels -------------------------------------------------------------------------------------

void Executor::schedule_kernel_end(std::uint32_t slot, TimePoint at) {
  SlotState& state = slots_[slot];
  ++state.epoch;
  queue_.schedule({at, EventKind::kernel_end, slot, state.epoch});
}

void Executor::start_kernels(std::uint32_t slot) {
  SlotState& state = slots_[slot];
  const LaneCosts& lane = lane_of(slot);
  state.position = state.done[compute];
  state.begun = now();
  const bool disturbed = state.sm_held != 0 || state.memory_held != 0 || state.touched;
  const std::int64_t host = lane.host_slack[state.position] + lane.start[state.position];
  if (disturbed || input_.jitter > 0 || now().time_since_epoch().count() < host) {
    start_single_kernel(slot);
    return;
  }
  state.segment_end = index_of(slot).segment_end[state.position];
  state.in_segment = true;
  state.speed = full_speed;
  schedule_kernel_end(slot,
                      now() + Duration{lane.start[state.segment_end] - lane.start[state.position]});
}

void Executor::start_single_kernel(std::uint32_t slot) {
  SlotState& state = slots_[slot];
  const LaneCosts& lane = lane_of(slot);
  state.segment_end = state.position + 1;
  state.in_segment = false;
  state.remaining = jittered(slot, state.position, lane.duration(state.position));
  state.updated = now();
  state.speed = speed_of(state, lane, state.position);
  const WideInt left = (static_cast<WideInt>(state.remaining) << full_speed_bits);
  schedule_kernel_end(
      slot, now() + Duration{static_cast<std::int64_t>((left + state.speed - 1) / state.speed)});
}

// What the kernel gets of the SMs and of the memory bandwidth beside communication, over what it
// needs. Memory is given in proportion to demand where the two ask for more than there is: the
// memory controllers serve both.
std::uint64_t Executor::speed_of(const SlotState& state, const LaneCosts& lane,
                                 std::uint32_t position) const {
  std::uint64_t speed = full_speed;
  const std::int64_t sm = lane.sm[position];
  const std::int64_t sm_left = std::max<std::int64_t>(input_.device_sm - state.sm_held, 1024);
  if (sm > sm_left)
    speed = static_cast<std::uint64_t>((static_cast<WideInt>(sm_left) << full_speed_bits) / sm);
  const std::int64_t memory = lane.memory[position] + state.memory_held;
  if (memory > input_.device_memory) {
    const auto share = static_cast<std::uint64_t>(
        (static_cast<WideInt>(input_.device_memory) << full_speed_bits) / memory);
    speed = std::min(speed, share);
  }
  return speed;
}

std::int64_t Executor::jittered(std::uint32_t slot, std::uint32_t position,
                                std::int64_t duration) const {
  if (input_.jitter <= 0) return duration;
  // Log-normal with mean 1: exp(sigma z - sigma^2 / 2).
  const double z = standard_normal(input_.seed, system_.slots[slot].rank.value, position);
  const double factor = std::exp(input_.jitter * z - input_.jitter * input_.jitter / 2);
  return std::llround(static_cast<double>(duration) * factor);
}

void Executor::record_kernels(std::uint32_t slot, std::uint32_t end, TimePoint until) {
  const SlotState& state = slots_[slot];
  if (state.record == no_record) return;
  const LaneCosts& lane = lane_of(slot);
  const std::vector<OpId>& order = index_of(slot).order[compute];
  std::vector<Span>& spans = spans_[state.record];
  for (std::uint32_t k = state.position; k < end; ++k) {
    const TimePoint begin = state.begun + Duration{lane.start[k] - lane.start[state.position]};
    const TimePoint stop =
        k + 1 == end ? until
                     : state.begun + Duration{lane.start[k + 1] - lane.start[state.position]};
    spans[order[k].value] = {order[k], begin, begin, stop};
  }
}

void Executor::end_kernels(std::uint32_t slot) {
  SlotState& state = slots_[slot];
  record_kernels(slot, state.segment_end, now());
  const std::uint32_t count = state.segment_end - state.position;
  state.done[compute] += count - 1;
  activities_ += count - 1;
  state.speed = 0;
  end_ = now();
  finish(slot, compute);
  advance(slot, woken_by(slot, compute));
}

// Leaves the running kernel on its own, with what is left of it; the kernels before it are done.
void Executor::cut_segment(std::uint32_t slot) {
  SlotState& state = slots_[slot];
  const LaneCosts& lane = lane_of(slot);
  const std::int64_t reached = lane.start[state.position] + (now() - state.begun).count();
  const auto first = lane.start.begin() + state.position + 1;
  const auto last = lane.start.begin() + state.segment_end;
  // The last kernel whose start is at or before the point reached.
  const auto running =
      static_cast<std::uint32_t>(std::upper_bound(first, last, reached) - lane.start.begin()) - 1;
  const TimePoint begun = state.begun + Duration{lane.start[running] - lane.start[state.position]};
  record_kernels(slot, running, begun);
  state.done[compute] += running - state.position;
  activities_ += running - state.position;
  state.position = running;
  state.segment_end = running + 1;
  state.in_segment = false;
  state.begun = begun;
  state.updated = now();
  state.remaining = lane.start[running + 1] - reached;
}

void Executor::touch(std::uint32_t slot) {
  if (std::exchange(slots_[slot].touched, true)) return;
  touched_.push_back(slot);
}

void Executor::reshare_device(std::uint32_t slot) {
  SlotState& state = slots_[slot];
  if (state.speed == 0) return;
  const LaneCosts& lane = lane_of(slot);
  if (state.in_segment) {
    // A segment that ends at this very instant has nothing left to slow down.
    const std::int64_t length = lane.start[state.segment_end] - lane.start[state.position];
    if ((now() - state.begun).count() >= length) return;
    cut_segment(slot);
  } else {
    if (state.updated == now() && state.remaining == 0) return;
    const WideInt done = static_cast<WideInt>((now() - state.updated).count()) * state.speed;
    state.remaining = std::max<std::int64_t>(
        0, state.remaining - static_cast<std::int64_t>(done >> full_speed_bits));
    state.updated = now();
  }
  state.speed = speed_of(state, lane, state.position);
  const WideInt left = static_cast<WideInt>(state.remaining) << full_speed_bits;
  schedule_kernel_end(
      slot, now() + Duration{static_cast<std::int64_t>((left + state.speed - 1) / state.speed)});
}

void Executor::start_side_kernel(std::uint32_t slot, Stream stream, OpId op) {
  const LaneCosts& lane = lane_of(slot);
  const std::uint32_t work = input_.programs[system_.slots[slot].program].work[op.value];
  const std::uint32_t id = new_activity();
  Activity& activity = activities_pool_[id];
  activity.channel = slot;
  activity.stream = stream;
  activity.is_message = false;
  activity.is_side_kernel = true;
  activity.memory_held = lane.kernel_memory[work];
  slots_[slot].memory_held += activity.memory_held;
  touch(slot);
  const TimePoint end = now() + lane.kernel_time[work];
  if (slots_[slot].record != no_record)
    spans_[slots_[slot].record][op.value] = {op, now(), now(), end};
  queue_.schedule({end, EventKind::transfer_end, id, activity.epoch});
}

void Executor::end_side_kernel(std::uint32_t id) {
  const Activity activity = activities_pool_[id];
  ++activities_pool_[id].epoch;
  free_activities_.push_back(id);
  slots_[activity.channel].memory_held -= activity.memory_held;
  touch(activity.channel);
  end_ = now();
  const auto stream = static_cast<std::uint32_t>(activity.stream);
  finish(activity.channel, stream);
  advance(activity.channel, woken_by(activity.channel, stream));
}

// --- communication -------------------------------------------------------------------------------

void Executor::arrive(std::uint32_t slot, Stream stream, OpId op) {
  const Slot& wired = system_.slots[slot];
  const Program& program = input_.programs[wired.program];
  const std::uint32_t work = program.work[op.value];
  std::uint32_t channel = no_channel;
  std::uint32_t request = 0;
  if (program.kind[op.value] == OpKind::collective) {
    channel = wired.group[static_cast<std::size_t>(program.collectives[work].group)];
    request = system_.requests.of_collective[wired.program][work];
  } else {
    SIM_CHECK(program.kind[op.value] == OpKind::send || program.kind[op.value] == OpKind::recv,
              word(program.kind[op.value]));
    channel = wired.peer[static_cast<std::size_t>(stream)];
    request = static_cast<std::uint32_t>(system_.requests.collectives.size()) +
              system_.requests.of_transfer[wired.program][work];
  }
  SIM_CHECK(channel != no_channel, program.name(op));
  if (slots_[slot].record != no_record)
    spans_[slots_[slot].record][op.value] = {op, now(), now(), now()};
  ChannelState& state = channels_[channel];
  if (++state.arrived == system_.channels[channel].member_count)
    start_activity(channel, request, stream);
}

std::uint32_t Executor::new_activity() {
  if (free_activities_.empty()) {
    activities_pool_.emplace_back();
    return static_cast<std::uint32_t>(activities_pool_.size() - 1);
  }
  const std::uint32_t id = free_activities_.back();
  free_activities_.pop_back();
  return id;
}

Stream Executor::stream_of(const Activity& activity, std::size_t member) const {
  if (!system_.channels[activity.channel].point_to_point) return activity.stream;
  const bool forward =
      activity.stream == Stream::forward_send || activity.stream == Stream::forward_recv;
  if (member == 0) return forward ? Stream::forward_send : Stream::backward_send;
  return forward ? Stream::forward_recv : Stream::backward_recv;
}

void Executor::start_activity(std::uint32_t channel, std::uint32_t request, Stream stream) {
  const std::uint32_t id = new_activity();
  Activity& activity = activities_pool_[id];
  const Channel& wired = system_.channels[channel];
  activity.channel = channel;
  activity.cell = static_cast<std::uint32_t>(wired.shape * system_.requests.size()) + request;
  activity.stream = stream;
  activity.started = now();
  activity.memory_held = 0;
  activity.in_transfer = false;
  activity.is_message = activity.is_side_kernel = activity.holds_devices = false;
  const std::span<const std::uint32_t> members = system_.members_of(wired);
  for (std::size_t m = 0; m < members.size(); ++m) {
    const std::uint32_t record = slots_[members[m]].record;
    if (record == no_record) continue;
    const auto lane = static_cast<std::size_t>(stream_of(activity, m));
    const OpId op = index_of(members[m]).order[lane][slots_[members[m]].done[lane]];
    spans_[record][op.value].active = now();
  }
  if (stepwise_ != nullptr && !wired.point_to_point && start_stepwise(id)) return;
  const Duration latency = system_.costs[activity.cell].latency;
  queue_.schedule({now() + latency, EventKind::latency_paid, id});
}

const Pattern& Executor::pattern_of(const Activity& activity) const {
  const Channel& channel = system_.channels[activity.channel];
  const CommCost& cost = system_.costs[activity.cell];
  const std::size_t request = activity.cell - channel.shape * system_.requests.size();
  const bool all_to_all = request < system_.requests.collectives.size() &&
                          system_.requests.collectives[request].kind == CollectiveKind::all_to_all;
  for (const Pattern& pattern : system_.patterns_of(channel))
    if (pattern.all_to_all == all_to_all &&
        (channel.point_to_point || pattern.algorithm == cost.algorithm))
      return pattern;
  SIM_CHECK(false, word(cost.algorithm));
  return system_.patterns.front();
}

void Executor::hold_devices(const Activity& activity, std::int64_t sm, std::int64_t memory) {
  for (const std::uint32_t slot : system_.members_of(system_.channels[activity.channel])) {
    slots_[slot].sm_held += sm;
    slots_[slot].memory_held += memory;
    touch(slot);
  }
}

void Executor::start_transfer(std::uint32_t id) {
  Activity& activity = activities_pool_[id];
  const CommCost& cost = system_.costs[activity.cell];
  if (cost.transfer == Duration{}) {
    end_activity(id);
    return;
  }
  activity.in_transfer = true;
  const Pattern& pattern = pattern_of(activity);
  sharing_.start(id, system_.uses_of(pattern), cost.rate, cost.transfer, now());
  pattern_bytes_[static_cast<std::size_t>(&pattern - system_.patterns.data())] += cost.link_bytes;
  activity.memory_held = cost.memory;
  activity.holds_devices = true;
  hold_devices(activity, cost.sm, cost.memory);
}

void Executor::end_activity(std::uint32_t id) {
  const Activity activity = activities_pool_[id];
  const CommCost& cost = system_.costs[activity.cell];
  if (activity.in_transfer) {
    sharing_.finish(id, now());
  }
  if (activity.holds_devices) hold_devices(activity, -cost.sm, -activity.memory_held);
  ++activities_pool_[id].epoch;
  free_activities_.push_back(id);
  const Channel& channel = system_.channels[activity.channel];
  CommTotals& totals = totals_[activity.cell];
  totals.calls += channel.represents;
  totals.time += (now() - activity.started) * channel.represents;
  channels_[activity.channel].arrived = 0;
  end_ = now();
  const std::span<const std::uint32_t> members = system_.members_of(channel);
  for (std::size_t m = 0; m < members.size(); ++m) {
    const std::uint32_t slot = members[m];
    const auto stream = static_cast<std::uint32_t>(stream_of(activity, m));
    if (slots_[slot].record != no_record) {
      const OpId op = index_of(slot).order[stream][slots_[slot].done[stream]];
      spans_[slots_[slot].record][op.value].end = now();
    }
    finish(slot, stream);
  }
  for (std::size_t m = 0; m < members.size(); ++m) {
    const auto stream = static_cast<std::uint32_t>(stream_of(activity, m));
    advance(members[m], woken_by(members[m], stream));
  }
}

// A stepwise collective holds its SMs and its mean memory traffic from start to end.
bool Executor::start_stepwise(std::uint32_t id) {
  Activity& activity = activities_pool_[id];
  const Channel& channel = system_.channels[activity.channel];
  const auto request =
      static_cast<std::uint32_t>(activity.cell - channel.shape * system_.requests.size());
  if (!stepwise_->begin(id, activity.channel, request, outbox_)) return false;
  const CommCost& cost = system_.costs[activity.cell];
  activity.memory_held = cost.memory;
  activity.holds_devices = true;
  hold_devices(activity, cost.sm, cost.memory);
  send_messages();
  return true;
}

void Executor::send_messages() {
  for (const StepMessage& message : outbox_) {
    const std::uint32_t id = new_activity();
    activities_pool_[id].is_message = true;
    activities_pool_[id].is_side_kernel = false;
    if (id >= messages_.size()) messages_.resize(activities_pool_.size());
    messages_[id] = message;
    queue_.schedule({now() + message.latency, EventKind::latency_paid, id});
  }
  outbox_.clear();
}

void Executor::start_message(std::uint32_t id) {
  const StepMessage& message = messages_[id];
  activities_pool_[id].in_transfer = message.transfer > Duration{};
  if (!activities_pool_[id].in_transfer) {
    end_message(id);
    return;
  }
  sharing_.start(id, message.uses, message.rate, message.transfer, now());
  for (const ResourceUse& use : message.uses)
    message_bytes_[use.resource] += static_cast<WideInt>(use.weight) * message.bytes;
}

void Executor::end_message(std::uint32_t id) {
  const StepMessage message = messages_[id];
  if (activities_pool_[id].in_transfer) sharing_.finish(id, now());
  ++activities_pool_[id].epoch;
  free_activities_.push_back(id);
  ++activities_;
  const bool done = stepwise_->delivered(message, outbox_);
  send_messages();
  if (done) end_activity(stepwise_->activity_of(message.run));
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

void Executor::report_deadlock() const {
  std::string text = "the plan deadlocks:";
  int named = 0;
  for (std::uint32_t slot = 0; slot < slots_.size() && named < 8; ++slot) {
    const Program& program = input_.programs[system_.slots[slot].program];
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
