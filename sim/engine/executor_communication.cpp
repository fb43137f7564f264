// The executor's communication: arrival at a channel, latency, transfer, end; and the messages of
// stepwise collectives.
#include "sim/base/check.hpp"
#include "sim/engine/executor.hpp"

namespace sim {

// A communication kernel holds its SMs from here on, also while it waits for its partners; a core
// is held only while bytes move.
void Executor::launch(std::uint32_t slot, Stream stream, OpId op) {
  const Call call = call_of(system_, slot, program_of(slot), op);
  const std::int32_t sm = system_.costs[call.cell].sm;
  if (sm > 0 && !shares_device()) {
    if (has_no_room(slot, sm)) {
      wait_for(slot, compute, static_cast<std::uint32_t>(stream));
      return;
    }
    slots_[slot].sm_held += static_cast<std::int32_t>(sm);
    touch(slot);
  }
  arrive(slot, stream, op, call);
}

void Executor::arrive(std::uint32_t slot, Stream stream, OpId op, const Call& call) {
  if (record_of_[slot] != no_record) spans_[record_of_[slot]][op.value] = {op, now(), now(), now()};
  ChannelState& state = channels_[call.channel];
  if (++state.arrived == system_.channels[call.channel].member_count) start_activity(call, stream);
}

std::uint32_t Executor::new_activity() {
  if (free_activities_.empty()) {
    activities_.emplace_back();
    return static_cast<std::uint32_t>(activities_.size() - 1);
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

void Executor::start_activity(const Call& call, Stream stream) {
  const std::uint32_t id = new_activity();
  Activity& activity = activities_[id];
  const Channel& wired = system_.channels[call.channel];
  activity.channel = call.channel;
  activity.cell = call.cell;
  activity.stream = stream;
  activity.started = now();
  activity.memory_held = 0;
  activity.in_transfer = false;
  activity.kind = ActivityKind::communication;
  activity.moves = false;
  const std::span<const std::uint32_t> members = system_.members_of(wired);
  for (std::size_t m = 0; m < members.size(); ++m) {
    const std::uint32_t record = record_of_[members[m]];
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
  if (sm == 0 && memory == 0) return;
  for (const std::uint32_t slot : system_.members_of(system_.channels[activity.channel])) {
    slots_[slot].sm_held += static_cast<std::int32_t>(sm);
    slots_[slot].memory_held += memory;
    touch(slot);
  }
}

void Executor::begin_moving(Activity& activity, const CommCost& cost) {
  activity.memory_held = cost.memory;
  activity.moves = true;
  hold_devices(activity, shares_device() ? cost.sm : 0, cost.memory);
}

void Executor::start_transfer(std::uint32_t id) {
  Activity& activity = activities_[id];
  const CommCost& cost = system_.costs[activity.cell];
  if (cost.transfer == Duration{}) {
    end_activity(id);
    return;
  }
  activity.in_transfer = true;
  const Pattern& pattern = pattern_of(activity);
  sharing_.start(id,
                 {.uses = system_.shared_uses_of(pattern),
                  .full_rate = cost.rate,
                  .flows = cost.flows,
                  .full_time = cost.transfer},
                 now());
  activity.pattern = static_cast<std::uint32_t>(&pattern - system_.patterns.data());
  activity.moving = now();
  pattern_bytes_[activity.pattern] += cost.link_bytes;
  begin_moving(activity, cost);
}

void Executor::end_activity(std::uint32_t id) {
  const Activity activity = activities_[id];
  const CommCost& cost = system_.costs[activity.cell];
  if (activity.in_transfer) {
    sharing_.finish(id, now());
    pattern_busy_[activity.pattern] += now() - activity.moving;
  }
  const bool holds_sm = activity.moves || !shares_device();
  hold_devices(activity, holds_sm ? -cost.sm : 0, -activity.memory_held);
  ++activities_[id].epoch;
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
    if (record_of_[slot] != no_record) {
      const OpId op = index_of(slot).order[stream][slots_[slot].done[stream]];
      spans_[record_of_[slot]][op.value].end = now();
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
  Activity& activity = activities_[id];
  const Channel& channel = system_.channels[activity.channel];
  const auto request =
      static_cast<std::uint32_t>(activity.cell - channel.shape * system_.requests.size());
  if (!stepwise_->begin(id, activity.channel, request, outbox_)) return false;
  const CommCost& cost = system_.costs[activity.cell];
  begin_moving(activity, cost);
  send_messages();
  return true;
}

void Executor::send_messages() {
  for (const StepMessage& message : outbox_) {
    const std::uint32_t id = new_activity();
    activities_[id].kind = ActivityKind::message;
    if (id >= messages_.size()) messages_.resize(activities_.size());
    messages_[id] = message;
    queue_.schedule({now() + message.latency, EventKind::latency_paid, id});
  }
  outbox_.clear();
}

void Executor::start_message(std::uint32_t id) {
  const StepMessage& message = messages_[id];
  activities_[id].in_transfer = message.transfer > Duration{};
  if (!activities_[id].in_transfer) {
    end_message(id);
    return;
  }
  sharing_.start(id,
                 {.uses = message.uses,
                  .full_rate = message.rate,
                  .flows = message.flows,
                  .full_time = message.transfer},
                 now());
  for (const ResourceUse& use : message.uses)
    message_bytes_[use.resource] += static_cast<WideInt>(use.weight) * message.bytes;
}

void Executor::end_message(std::uint32_t id) {
  const StepMessage message = messages_[id];
  if (activities_[id].in_transfer) sharing_.finish(id, now());
  ++activities_[id].epoch;
  free_activities_.push_back(id);
  ++finished_operators_;
  const bool done = stepwise_->delivered(message, outbox_);
  send_messages();
  if (done) end_activity(stepwise_->activity_of(message.run));
}

}  // namespace sim
