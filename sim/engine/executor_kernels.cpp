// The executor's kernels: segments of undisturbed ones, their end, and what communication beside
// them takes.
#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/base/random.hpp"
#include "sim/engine/executor.hpp"

namespace sim {

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
  state.running = true;
  const bool disturbed = state.sm_held != 0 || state.memory_held != 0 || state.touched;
  const OpId first = index_of(slot).order[compute][state.position];
  const std::int64_t slack = lane.host_slack[state.position] + lane.start[state.position];
  const bool alone = disturbed || input_.jitter > 0;
  const bool host_is_late = !alone && now() < issued_at(slot, first, slack);
  if (host_is_late) ++hosts_[slot].waits;
  if (alone || host_is_late) {
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
  share_device(slot);
  run_rest_of_kernel(slot);
}

// Gives the kernel what it gets beside what is held on its device. True: its speed is another.
bool Executor::share_device(std::uint32_t slot) {
  SlotState& state = slots_[slot];
  const LaneCosts& lane = lane_of(slot);
  if (lane.late_blocks[state.position]) place_blocks(slot);
  const std::uint64_t speed = speed_of(state, lane, state.position);
  return std::exchange(state.speed, speed) != speed;
}

// Its end at that speed.
void Executor::run_rest_of_kernel(std::uint32_t slot) {
  SlotState& state = slots_[slot];
  if (state.speed == 0) {
    ++state.epoch;  // the end that was scheduled is no more
    return;
  }
  std::int64_t left = state.remaining;
  if (state.speed != full_speed)
    left = static_cast<std::int64_t>(
        ((static_cast<WideInt>(left) << full_speed_bits) + state.speed - 1) / state.speed);
  schedule_kernel_end(slot, now() + Duration{left});
}

// The share of the SMs and of the memory bandwidth that the kernel gets beside communication, over
// its need. Memory is given in proportion to demand where the two ask for more than there is: the
// memory controllers serve both.
std::uint64_t Executor::speed_of(const SlotState& state, const LaneCosts& lane,
                                 std::uint32_t position) const {
  // Late blocks have the device to themselves.
  if (state.in_tail) return full_speed;
  std::uint64_t speed = full_speed;
  const std::int64_t sm = lane.sm[position];
  const std::int64_t least = shares_device() ? 0 : 1024;
  const std::int64_t sm_left = std::max<std::int64_t>(lane.device_sm - state.sm_held, least);
  if (sm > sm_left && !lane.late_blocks[position])
    speed =
        (static_cast<std::uint64_t>(sm_left) << full_speed_bits) / static_cast<std::uint64_t>(sm);
  const std::int64_t memory = lane.memory[position] + state.memory_held;
  if (memory > lane.device_memory) {
    const auto share = static_cast<std::uint64_t>(
        (static_cast<WideInt>(lane.device_memory) << full_speed_bits) / memory);
    speed = std::min(speed, share);
  }
  return speed;
}

// Sources: PyTorch issue 143988 and NVIDIA's developer forum, topic 337991 (H100: a product's 132
// blocks beside 24 of an all-gather fall into two waves: "2x", 80% to 47% of the peak rate).
// Communication that is launched at the instant at which the product starts comes first, as
// Megatron-LM orders them (CUDA_DEVICE_MAX_CONNECTIONS=1).
void Executor::place_blocks(std::uint32_t slot) {
  const SlotState& state = slots_[slot];
  if (state.in_tail) return;
  const LaneCosts& lane = lane_of(slot);
  const std::int64_t alone = jittered(slot, state.position, lane.duration(state.position));
  if (lane.sm[state.position] <= lane.device_sm - state.sm_held)
    late_[slot] = std::min(late_[slot], alone - state.remaining);
  else if (state.begun == now())
    late_[slot] = alone;
}

// The running kernels end; or the first blocks of a persistent one do, whose SMs are free then.
void Executor::end_phase(std::uint32_t slot) {
  SlotState& state = slots_[slot];
  if (late_[slot] == 0) {
    end_kernels(slot);
    return;
  }
  state.in_tail = true;
  state.remaining = std::exchange(late_[slot], 0);
  state.updated = now();
  share_device(slot);
  run_rest_of_kernel(slot);
  advance(slot, std::exchange(state.waiters[compute], std::uint16_t{0}));
}

// Whether communication finds its SMs taken by blocks of a persistent kernel that has been running.
// It waits for their end (NCCL issue 1431). If so, that has an event of its own.
bool Executor::has_no_room(std::uint32_t slot, std::int64_t sm) {
  const SlotState& state = slots_[slot];
  if (!state.running || state.in_tail) return false;
  const LaneCosts& lane = lane_of(slot);
  const std::uint32_t running = state.in_segment ? running_in_segment(slot) : state.position;
  if (!lane.persistent[running] || begin_of(state, lane, running) == now()) return false;
  if (lane.sm[running] <= lane.device_sm - state.sm_held - sm) return false;
  if (state.in_segment) {
    cut_segment(slot, running);
    share_device(slot);
    run_rest_of_kernel(slot);
  }
  return true;
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
  if (record_of_[slot] == no_record) return;
  const LaneCosts& lane = lane_of(slot);
  const std::vector<OpId>& order = index_of(slot).order[compute];
  std::vector<Span>& spans = spans_[record_of_[slot]];
  for (std::uint32_t k = state.position; k < end; ++k) {
    const TimePoint begin = begin_of(state, lane, k);
    const TimePoint stop = k + 1 == end ? until : begin_of(state, lane, k + 1);
    spans[order[k].value] = {order[k], begin, begin, stop};
  }
}

void Executor::end_kernels(std::uint32_t slot) {
  SlotState& state = slots_[slot];
  record_kernels(slot, state.segment_end, now());
  const std::uint32_t count = state.segment_end - state.position;
  state.done[compute] += count - 1;
  finished_operators_ += count - 1;
  state.speed = 0;
  state.running = state.in_tail = false;
  end_ = now();
  finish(slot, compute);
  look_at_limit(slot);
  advance(slot, woken_by(slot, compute));
}

// The begin of a kernel of the running segment, or of the running kernel.
TimePoint Executor::begin_of(const SlotState& state, const LaneCosts& lane,
                             std::uint32_t position) {
  return state.begun + Duration{lane.start[position] - lane.start[state.position]};
}

// The last kernel whose start is at or before the point reached.
std::uint32_t Executor::running_in_segment(std::uint32_t slot) const {
  const SlotState& state = slots_[slot];
  const LaneCosts& lane = lane_of(slot);
  const std::int64_t reached = lane.start[state.position] + (now() - state.begun).count();
  const auto first = lane.start.begin() + state.position + 1;
  const auto last = lane.start.begin() + state.segment_end;
  return static_cast<std::uint32_t>(std::upper_bound(first, last, reached) - lane.start.begin()) -
         1;
}

// Leaves the running kernel on its own, with what is left of it; the kernels before it are done.
void Executor::cut_segment(std::uint32_t slot, std::uint32_t running) {
  SlotState& state = slots_[slot];
  const LaneCosts& lane = lane_of(slot);
  const std::int64_t reached = lane.start[state.position] + (now() - state.begun).count();
  const TimePoint begun = begin_of(state, lane, running);
  record_kernels(slot, running, begun);
  state.done[compute] += running - state.position;
  finished_operators_ += running - state.position;
  state.position = running;
  state.segment_end = running + 1;
  state.in_segment = false;
  state.begun = begun;
  state.updated = now();
  state.remaining = lane.start[running + 1] - reached;
}

void Executor::touch(std::uint32_t slot) {
  if (slots_[slot].touched) return;
  slots_[slot].touched = true;
  touched_.push_back(slot);
}

void Executor::reshare_device(std::uint32_t slot) {
  SlotState& state = slots_[slot];
  if (!state.running) return;
  const LaneCosts& lane = lane_of(slot);
  if (state.in_segment) {
    // A segment that ends at this very instant has nothing left to slow down.
    const std::int64_t length = lane.start[state.segment_end] - lane.start[state.position];
    if ((now() - state.begun).count() >= length) return;
    cut_segment(slot, running_in_segment(slot));
    share_device(slot);
  } else {
    if (state.updated == now() && state.remaining == 0) return;
    const WideInt done = static_cast<WideInt>((now() - state.updated).count()) * state.speed;
    state.remaining = std::max<std::int64_t>(
        0, state.remaining - static_cast<std::int64_t>(done >> full_speed_bits));
    state.updated = now();
    if (!share_device(slot)) return;  // its end stands
  }
  run_rest_of_kernel(slot);
}

void Executor::start_side_kernel(std::uint32_t slot, Stream stream, OpId op) {
  const LaneCosts& lane = lane_of(slot);
  const std::uint32_t work = program_of(slot).work[op.value];
  const std::uint32_t id = new_activity();
  Activity& activity = activities_[id];
  activity.slot = slot;
  activity.stream = stream;
  activity.kind = ActivityKind::side_kernel;
  activity.memory_held = lane.kernel_memory[work];
  activity.sm_held = shares_device() ? lane.device_sm : 0;
  slots_[slot].memory_held += activity.memory_held;
  slots_[slot].sm_held += static_cast<std::int32_t>(activity.sm_held);
  touch(slot);
  const TimePoint end = now() + lane.kernel_time[work];
  if (record_of_[slot] != no_record) spans_[record_of_[slot]][op.value] = {op, now(), now(), end};
  queue_.schedule({end, EventKind::transfer_end, id, activity.epoch});
}

void Executor::end_side_kernel(std::uint32_t id) {
  const Activity activity = activities_[id];
  ++activities_[id].epoch;
  free_activities_.push_back(id);
  slots_[activity.slot].memory_held -= activity.memory_held;
  slots_[activity.slot].sm_held -= static_cast<std::int32_t>(activity.sm_held);
  touch(activity.slot);
  end_ = now();
  const auto stream = static_cast<std::uint32_t>(activity.stream);
  finish(activity.slot, stream);
  advance(activity.slot, woken_by(activity.slot, stream));
}

}  // namespace sim
