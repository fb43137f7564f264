// HostProgram is the memory of a rank's program, with its operators as launches on it: for a step,
// and for a measurement (real/calibrate).
#pragma once

#include <vector>

#include "real/engine/backend.hpp"
#include "real/engine/launch/kernel_launches.hpp"
#include "real/host/arena.hpp"
#include "real/host/kernels/host_kernels.hpp"

namespace real {

class HostProgram {
 public:
  // REQUIRES: both outlive it. Throws OutOfMemory.
  // `routing`: of routers that choose by their scores; null: they choose evenly.
  HostProgram(const BoundProgram& program, const sim::Training& training,
              RoutingTables* routing = nullptr);
  HostProgram(const HostProgram&) = delete;
  HostProgram& operator=(const HostProgram&) = delete;

  Arena& arena() { return arena_; }
  Arena& host() { return host_; }                    // offloaded tensors
  const Arena& scratch() const { return scratch_; }  // beside it
  const StepMemory& memory() const { return memory_; }
  // Tokens and Adam's part; sums start anew.
  void begin_step(const StepInput& input);
  // A kernel. `scan` looks at what any operator has written for numbers that are not finite.
  void run(std::uint32_t op) const { launches_[op](nullptr); }
  void scan(std::uint32_t op) const { scans_[op](nullptr); }

 private:
  void take_turn(std::int64_t step);

  const BoundProgram& program_;
  const sim::Training& training_;
  Arena arena_, host_;
  ScratchLayout layout_;
  Arena scratch_;
  StepMemory memory_;
  DelayedUpdate turns_;
  std::int64_t last_step_ = -1;
  HostProducts products_;
  std::vector<kernels::Launch> launches_, scans_;  // of communication: no launch
};

}  // namespace real
