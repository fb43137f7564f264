#include "real/cuda/recorder.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "sim/base/check.hpp"

namespace real {

namespace {

constexpr std::uint32_t clock_channel = 0x434c434b;    // "CLCK": of the control transport
constexpr std::uint32_t arrival_channel = 0x41525256;  // "ARRV"
constexpr int round_trips = 16;

std::int64_t host_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::span<std::byte> bytes(std::vector<std::int64_t>& values) {
  return std::as_writable_bytes(std::span{values});
}

// Rank 0 answers each rank in turn with its time. The answer was made in the middle of the round
// trip, give or take half of it.
std::int64_t measure_clock_offset(Transport& control) {
  std::vector<std::int64_t> message(1);
  if (control.rank() == 0) {
    for (int rank = 1; rank < control.size(); ++rank) {
      for (int i = 0; i < round_trips; ++i) {
        wait(control, control.start_receive(rank, clock_channel, bytes(message)));
        message[0] = host_now();
        wait(control, control.start_send(rank, clock_channel, bytes(message)));
      }
    }
    return 0;
  }
  std::int64_t shortest = INT64_MAX;
  std::int64_t offset = 0;
  for (int i = 0; i < round_trips; ++i) {
    const std::int64_t before = host_now();
    wait(control, control.start_send(0, clock_channel, bytes(message)));
    wait(control, control.start_receive(0, clock_channel, bytes(message)));
    const std::int64_t after = host_now();
    if (after - before >= shortest) continue;
    shortest = after - before;
    offset = message[0] - (before + shortest / 2);
  }
  return offset;
}

// Whether an operator communicates with these ranks.
bool meets(const BoundProgram& program, const Communicator& with, const BoundOp& op) {
  if (with.stream != op.stream) return false;
  if (with.kind != CommunicatorKind::message) {
    return op.collective != nullptr && op.collective->group == with.role;
  }
  if (op.transfer == nullptr) return false;
  const auto peer = static_cast<std::size_t>(op.transfer->peer);
  const auto other = static_cast<int>(program.plan->peer_of[program.rank.value][peer].value);
  return std::find(with.members.begin(), with.members.end(), other) != with.members.end();
}

std::int64_t nanoseconds(float milliseconds) {
  return std::llround(static_cast<double>(milliseconds) * 1e6);
}

}  // namespace

Recorder::Recorder(const BoundProgram& program, Transport& control)
    : program_{program},
      control_{control},
      meetings_{communicators_of(program, {})},
      met_(meetings_.size()),
      clock_offset_{measure_clock_offset(control)},
      anchor_{DeviceEvent::Kind::timing},
      start_{DeviceEvent::Kind::timing},
      finish_{DeviceEvent::Kind::timing} {
  for (std::uint32_t op = 0; op < program.ops.size(); ++op) {
    begin_.emplace_back(DeviceEvent::Kind::timing);
    end_.emplace_back(DeviceEvent::Kind::timing);
    for (std::size_t i = 0; i < meetings_.size(); ++i) {
      if (!meets(program, meetings_[i], program.ops[op])) continue;
      met_[i].push_back(op);
    }
  }
}

void Recorder::anchor(cudaStream_t stream) {
  const std::int64_t before = host_now();
  check(cudaEventRecord(anchor_.get(), stream), "cudaEventRecord");
  check(cudaEventSynchronize(anchor_.get()), "cudaEventSynchronize");
  anchor_time_ = before + (host_now() - before) / 2;
}

sim::Duration Recorder::step_time() const {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, start_.get(), finish_.get()), "the time of a step");
  return std::chrono::nanoseconds{nanoseconds(milliseconds)};
}

std::int64_t Recorder::since_start(const DeviceEvent& event) const {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, start_.get(), event.get()), "the time of an operator");
  return nanoseconds(milliseconds);
}

std::vector<std::int64_t> Recorder::latest(const Communicator& members,
                                           std::vector<std::int64_t> arrivals) {
  const int root = members.members.front();
  if (members.position != 0) {
    wait(control_, control_.start_send(root, arrival_channel, bytes(arrivals)));
    wait(control_, control_.start_receive(root, arrival_channel, bytes(arrivals)));
    return arrivals;
  }
  std::vector<std::int64_t> other(arrivals.size());
  for (const int rank : std::span{members.members}.subspan(1)) {
    wait(control_, control_.start_receive(rank, arrival_channel, bytes(other)));
    for (std::size_t i = 0; i < arrivals.size(); ++i) {
      arrivals[i] = std::max(arrivals[i], other[i]);
    }
  }
  for (const int rank : std::span{members.members}.subspan(1)) {
    wait(control_, control_.start_send(rank, arrival_channel, bytes(arrivals)));
  }
  return arrivals;
}

std::vector<sim::Span> Recorder::spans() {
  std::vector<Moments> moments(program_.ops.size());
  for (std::size_t op = 0; op < moments.size(); ++op) {
    moments[op].begin = since_start(begin_[op]);
    moments[op].end = std::max(moments[op].begin, since_start(end_[op]));
  }
  float to_start = 0;
  check(cudaEventElapsedTime(&to_start, anchor_.get(), start_.get()), "the start of a step");
  const std::int64_t base = anchor_time_ + nanoseconds(to_start) + clock_offset_;
  std::vector<std::int64_t> active(moments.size());
  for (std::size_t op = 0; op < moments.size(); ++op)
    active[op] = moments[op].begin;
  for (std::size_t i = 0; i < meetings_.size(); ++i) {
    std::vector<std::int64_t> arrivals;
    for (const std::uint32_t op : met_[i])
      arrivals.push_back(base + moments[op].begin);
    arrivals = latest(meetings_[i], std::move(arrivals));
    for (std::size_t at = 0; at < met_[i].size(); ++at)
      active[met_[i][at]] = arrivals[at] - base;
  }
  const auto time = [](std::int64_t ns) {
    return sim::TimePoint{sim::Duration{std::chrono::nanoseconds{ns}}};
  };
  std::vector<sim::Span> result;
  for (std::uint32_t op = 0; op < moments.size(); ++op) {
    const auto [begin, end] = moments[op];
    result.push_back({.op = sim::OpId{op},
                      .begin = time(begin),
                      .active = time(std::clamp(active[op], begin, end)),
                      .end = time(end)});
  }
  return result;
}

}  // namespace real
