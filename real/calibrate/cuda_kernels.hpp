// A program in the memory of a GPU, its kernels ready to be measured.
#pragma once

#include <optional>
#include <vector>

#include "real/calibrate/cuda_bench.hpp"
#include "real/cuda/prepare.hpp"
#include "real/cuda/program_memory.hpp"

namespace real {

class CudaKernels : public KernelBench {
 public:
  CudaKernels(const BoundProgram& program, CudaBench& bench, std::uint64_t seed);
  ~CudaKernels() override;

  void refill(std::uint64_t seed) override;
  std::vector<double> run(std::span<const std::uint32_t> ops) override;
  Beside run_beside(std::uint32_t op, int repeats, const CollectiveCase& with) override;
  double issue_cost(std::span<const std::uint32_t> ops);
  sim::MeasuredGaps gaps(std::span<const std::uint32_t> ops);

 private:
  const Launch& launch(std::uint32_t op);
  void prepare(std::span<const std::uint32_t> ops);
  void fill_inputs(std::uint64_t seed);

  const BoundProgram& program_;
  CudaBench& bench_;
  ProgramMemory memory_;
  StepMemory step_;  // of `memory_`
  NcclWorld no_communicators_;
  Gemms gemms_;
  sim::Training training_;
  std::optional<Preparation> preparation_;
  std::vector<Launch> launches_;  // empty: not prepared yet
  void fill(const Operand& place, const DeviceMemory& pattern, std::uint64_t seed);

  DeviceMemory pattern_, positive_;  // random numbers that operands are filled from
  std::vector<Operand> positive_operands_;
  DeviceEvent start_, compute_end_, communication_end_;
};

}  // namespace real
