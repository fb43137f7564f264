#include "real/cuda/step_runner.hpp"

#include "real/engine/scratch.hpp"
#include "sim/base/check.hpp"

namespace real {

using sim::OpId;
using sim::Stream;

namespace {

// Flags of events whose time is wanted: inside a capture they stay events instead of becoming
// edges.
unsigned timing_flags_of(bool captured) {
  return captured ? cudaEventRecordExternal : cudaEventRecordDefault;
}

}  // namespace

StepRunner::StepRunner(const Parts& parts)
    : parts_{parts},
      graph_{make_event_graph(*parts.program.program)},
      fork_{DeviceEvent::Kind::order} {
  using Priority = DeviceStream::Priority;
  streams_[static_cast<std::size_t>(Stream::compute)] = DeviceStream{Priority::normal};
  for (const Stream stream : graph_.streams) {
    if (stream == Stream::compute) continue;
    streams_[static_cast<std::size_t>(stream)] = DeviceStream{Priority::high};
  }
  for (std::int32_t i = 0; i < graph_.events; ++i)
    events_.emplace_back(DeviceEvent::Kind::order);
  for (std::uint32_t op = 0; op < parts.program.ops.size(); ++op) {
    const BoundOp& bound = parts.program.ops[op];
    if (bound.collective == nullptr && bound.transfer == nullptr) continue;
    communications_.push_back(op);
    finished_.emplace_back(DeviceEvent::Kind::order);
  }
}

void StepRunner::prepare(std::vector<Launch> launches, std::vector<Launch> scans) {
  SIM_CHECK(launches.size() == parts_.program.ops.size(), launches.size());
  launches_ = std::move(launches);
  scans_ = std::move(scans);
}

void StepRunner::issue(StepMode mode, const Launch& tail) {
  issue_all(mode, tail, timing_flags_of(false));
}

void StepRunner::replay(StepMode mode, const Launch& tail) {
  SIM_CHECK(mode != StepMode::scan);
  DeviceGraph& graph = graphs_[static_cast<std::size_t>(mode)];
  if (!graph.exists()) graph = capture(mode, tail);
  issued_.store(0);
  finished_until_.store(0);
  graph.launch(compute());
}

DeviceGraph StepRunner::capture(StepMode mode, const Launch& tail) {
  // Thread-local: what other threads of the process do meanwhile (NCCL's, the watchdog's) is not
  // part of it.
  check(cudaStreamBeginCapture(compute(), cudaStreamCaptureModeThreadLocal),
        "cudaStreamBeginCapture");
  try {
    issue_all(mode, tail, timing_flags_of(true));
  } catch (...) {
    DeviceGraph::discard_capture(compute());
    throw;
  }
  return DeviceGraph::end_capture(compute());
}

void StepRunner::drop_graphs() {
  for (DeviceGraph& graph : graphs_)
    graph = DeviceGraph{};
}

void StepRunner::issue_all(StepMode mode, const Launch& tail, unsigned timing_flags) {
  issued_.store(0);
  finished_until_.store(0);
  const StepMemory& memory = parts_.memory;
  const bool records = mode == StepMode::record;
  if (records) {
    check(cudaEventRecordWithFlags(parts_.recorder->start_of_step(), compute(), timing_flags),
          "the start of a step");
  }
  // Loss and sum of squares start at 0; "no operator" is a number larger than any.
  check(cudaMemsetAsync(memory.loss, 0, sizeof(StepResults), compute()), "cudaMemsetAsync");
  check(cudaMemsetAsync(memory.first_not_finite, 0x7f, sizeof(std::int32_t), compute()),
        "cudaMemsetAsync");
  check(cudaEventRecord(fork_.get(), compute()), "cudaEventRecord");
  for (const Stream other : graph_.streams) {
    if (other == Stream::compute) continue;
    check(cudaStreamWaitEvent(stream(other), fork_.get(), 0), "cudaStreamWaitEvent");
  }
  next_host_wait_ = 0;
  for (std::uint32_t op = 0; op < launches_.size(); ++op) {
    issue_op(op, mode, timing_flags);
    parts_.progress();
  }
  for (const auto& wait : graph_.join) {
    check(cudaStreamWaitEvent(compute(), events_[static_cast<std::size_t>(wait.event)].get(), 0),
          "cudaStreamWaitEvent");
  }
  if (records) {
    check(cudaEventRecordWithFlags(parts_.recorder->end_of_step(), compute(), timing_flags),
          "the end of a step");
  }
  tail(compute());
}

// A graph has no host. An operator that never ends is the watchdog's to find: nothing is reported
// as progress meanwhile.
void StepRunner::wait_before(std::uint32_t op) {
  const auto& waits = parts_.program.program->host_waits;
  for (; next_host_wait_ < waits.size() && waits[next_host_wait_].before.value == op;
       ++next_host_wait_) {
    const std::int32_t event = graph_.host_waits[next_host_wait_].event;
    check(cudaEventSynchronize(events_[static_cast<std::size_t>(event)].get()),
          "cudaEventSynchronize");
  }
}

void StepRunner::issue_op(std::uint32_t op, StepMode mode, unsigned timing_flags) {
  const bool captured = timing_flags == timing_flags_of(true);
  if (!captured) wait_before(op);
  const BoundOp& bound = parts_.program.ops[op];
  const cudaStream_t on = stream(bound.stream);
  for (const auto& wait : graph_.waits_of(OpId{op})) {
    check(cudaStreamWaitEvent(on, events_[static_cast<std::size_t>(wait.event)].get(), 0),
          "cudaStreamWaitEvent");
  }
  const bool records = mode == StepMode::record;
  if (records) {
    check(cudaEventRecordWithFlags(parts_.recorder->begin_of(op), on, timing_flags),
          "the begin of an operator");
  }
  launches_[op](on);
  if (mode == StepMode::scan) scans_[op](on);
  if (records) {
    check(cudaEventRecordWithFlags(parts_.recorder->end_of(op), on, timing_flags),
          "the end of an operator");
  }
  const std::size_t next = issued_.load(std::memory_order_relaxed);
  if (!captured && next < communications_.size() && communications_[next] == op) {
    check(cudaEventRecord(finished_[next].get(), on), "cudaEventRecord");
    issued_.store(next + 1, std::memory_order_release);
  }
  if (graph_.records[op] != EventGraph::no_event) {
    check(cudaEventRecord(events_[static_cast<std::size_t>(graph_.records[op])].get(), on),
          "cudaEventRecord");
  }
}

std::size_t StepRunner::next_unfinished() const {
  const std::size_t issued = issued_.load(std::memory_order_acquire);
  std::size_t i = finished_until_.load(std::memory_order_relaxed);
  while (i < issued && cudaEventQuery(finished_[i].get()) != cudaErrorNotReady)
    ++i;
  return i;
}

std::int64_t StepRunner::first_unfinished() const {
  const std::size_t next = next_unfinished();
  if (next >= issued_.load(std::memory_order_acquire)) return -1;
  return std::int64_t{communications_[next]};
}

std::int64_t StepRunner::advance() {
  finished_until_.store(next_unfinished(), std::memory_order_relaxed);
  return first_unfinished();
}

}  // namespace real
