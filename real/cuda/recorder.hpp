// When each operator ran: a pair of timing events around each, on recorded steps only.
//
// An event costs the stream about a microsecond (a timestamp written by the GPU's front end), and
// the host as much, so a recorded step of small kernels is slower than others by some 2 us per
// operator; `overhead` of README.md. Times of ranks are brought to the clock of rank 0 by the
// method of Cristian (1989): half of the shortest of several round trips is the uncertainty.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "real/cuda/device.hpp"
#include "real/cuda/nccl/communicators.hpp"
#include "real/engine/bound_program.hpp"
#include "real/net/transport.hpp"
#include "sim/timeline/timeline.hpp"

namespace real {

class Recorder {
 public:
  // Collective: measures the offset of this rank's clock.
  Recorder(const BoundProgram& program, Transport& control);

  // Before a recorded step, with an idle stream: ties the device's clock to the host's.
  void anchor(cudaStream_t stream);
  cudaEvent_t begin_of(std::uint32_t op) const { return begin_[op].get(); }
  cudaEvent_t end_of(std::uint32_t op) const { return end_[op].get(); }
  cudaEvent_t start_of_step() const { return start_.get(); }
  cudaEvent_t end_of_step() const { return finish_.get(); }

  sim::Duration step_time() const;
  // After a recorded step has ended. Collective: the partners of each communication tell each other
  // when they arrived.
  std::vector<sim::Span> spans();

 private:
  struct Moments {
    std::int64_t begin = 0, end = 0;  // ns from the start of the step
  };
  std::int64_t since_start(const DeviceEvent& event) const;  // ns
  // arrivals[i]: of operator ops[i] of this rank, ns on the clock of rank 0. Returns the latest of
  // all members.
  std::vector<std::int64_t> latest(const Communicator& members, std::vector<std::int64_t> arrivals);

  const BoundProgram& program_;
  Transport& control_;
  std::vector<Communicator> meetings_;           // who meets whom, by group and stream
  std::vector<std::vector<std::uint32_t>> met_;  // operators of each, in issue order
  std::int64_t clock_offset_ = 0;                // ns: add to this rank's clock for rank 0's
  std::int64_t anchor_time_ = 0;                 // ns, host clock
  DeviceEvent anchor_, start_, finish_;
  std::vector<DeviceEvent> begin_, end_;
};

}  // namespace real
