// Issues a step: every operator on its stream, with the events between streams; or launches the
// graph that was captured of it.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <vector>

#include "real/cuda/device.hpp"
#include "real/cuda/event_graph.hpp"
#include "real/cuda/prepare.hpp"
#include "real/cuda/recorder.hpp"

namespace real {

enum class StepMode : std::uint8_t {
  plain,
  record,  // timing events around every operator
  scan,    // each operator's results are scanned for numbers that are not finite
};

class StepRunner {
 public:
  struct Parts {
    const BoundProgram& program;
    const StepMemory& memory;
    Recorder* recorder = nullptr;  // of recorded steps
    std::function<void()> progress;
  };
  // Compute runs at normal priority, communication at high: a collective that starts late is late
  // for all its ranks.
  explicit StepRunner(const Parts& parts);

  cudaStream_t stream(sim::Stream stream) const {
    return streams_[static_cast<std::size_t>(stream)].get();
  }
  cudaStream_t compute() const { return stream(sim::Stream::compute); }
  void prepare(std::vector<Launch> launches, std::vector<Launch> scans);
  // The tail of every step, on the compute stream.
  void issue(StepMode mode, const Launch& tail);
  // The same by a graph, captured at the first call for each mode.
  void replay(StepMode mode, const Launch& tail);
  // Before communicators are left or aborted: NCCL waits in that until no graph holds an operation
  // of a communicator. One that the device is at is freed when its kernels end.
  void drop_graphs();

  // The first communication in issue order that the device has been given and has not finished; -1:
  // none. From any thread. Not of replayed steps: their events are not recorded until they run.
  std::int64_t first_unfinished() const;
  // The same; what is found finished is not asked for again in this step. From the issuing thread.
  std::int64_t advance();

 private:
  std::size_t next_unfinished() const;
  DeviceGraph capture(StepMode mode, const Launch& tail);
  void issue_all(StepMode mode, const Launch& tail, unsigned timing_flags);
  void issue_op(std::uint32_t op, StepMode mode, unsigned timing_flags);
  void wait_before(std::uint32_t op);

  Parts parts_;
  EventGraph graph_;
  std::array<DeviceStream, sim::stream_count> streams_;
  std::vector<DeviceEvent> events_;  // of EventGraph
  std::size_t next_host_wait_ = 0;   // of Program::host_waits
  DeviceEvent fork_;
  std::vector<std::uint32_t> communications_;  // operators
  std::vector<DeviceEvent> finished_;          // of each of them
  std::vector<Launch> launches_, scans_;
  std::array<DeviceGraph, 2> graphs_;           // plain, record
  std::atomic<std::size_t> issued_{0};          // communications of this step
  std::atomic<std::size_t> finished_until_{0};  // all before this one are done
};

}  // namespace real
