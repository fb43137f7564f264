// ProgramMemory is the memory of a rank's program on its device: the arena, frozen weights behind
// it, and beside them one block with tables, scalars and workspaces.
#pragma once

#include "real/cuda/device.hpp"
#include "real/cuda/prepare.hpp"
#include "real/engine/bound_program.hpp"
#include "real/engine/scratch.hpp"

namespace real {

// Makes it the thread's device. Throws std::runtime_error where there is none of that number, or
// this program's kernels do not run on it or with its driver.
int select_device(int device);

class ProgramMemory {
 public:
  // REQUIRES: a device is selected; `program` outlives it. Throws OutOfMemory.
  explicit ProgramMemory(const BoundProgram& program);

  const DeviceMemory& arena() const { return arena_; }
  // Memory that the plan gives no operand (BoundProgram::frozen).
  const DeviceMemory& frozen() const { return frozen_; }
  // An offset of an operand, or of a part of one, on the device.
  std::byte* at(std::int64_t offset) const {
    return offset < arena_.bytes() ? arena_.at(offset) : frozen_.at(offset - arena_.bytes());
  }
  const DeviceMemory& scratch() const { return scratch_; }
  const ScratchLayout& layout() const { return layout_; }
  const StepMemory& step() const { return step_; }
  std::byte* gemm_workspace() const { return scratch_.at(layout_.gemm_workspace); }
  // Fills the tables that launches read and no step writes. The rotary table is filled on `stream`.
  void fill_tables(cudaStream_t stream);

 private:
  const BoundProgram& program_;
  DeviceMemory arena_, frozen_;
  ScratchLayout layout_;
  DeviceMemory scratch_;
  StepMemory step_;
};

}  // namespace real
