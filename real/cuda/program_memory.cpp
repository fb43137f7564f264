#include "real/cuda/program_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "real/cuda/device_check.hpp"
#include "real/cuda/environment.hpp"
#include "real/engine/op_shapes.hpp"

namespace real {

int select_device(int device) {
  set_cuda_environment();  // where the program has not done it before it had threads
  const auto refuse = [](const std::string& problem) {
    if (!problem.empty()) throw std::runtime_error("CUDA: " + problem);
  };
  int toolkit = 0;
  int driver = 0;
  check(cudaRuntimeGetVersion(&toolkit), "cudaRuntimeGetVersion");
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  refuse(driver_problem(toolkit, driver));
  int count = 0;
  check(cudaGetDeviceCount(&count), "no GPU can be used");
  if (device < 0 || device >= count) {
    throw std::runtime_error(
        fmt::format("CUDA: there is no GPU {}; this process sees {}", device, count));
  }
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  refuse(capability_problem(STEPCAST_CUDA_ARCHITECTURES,
                            fmt::format("GPU {} ({})", device, properties.name), properties.major,
                            properties.minor));
  check(cudaSetDevice(device), "cudaSetDevice");
  return device;
}

ProgramMemory::ProgramMemory(const BoundProgram& program)
    : program_{program},
      arena_{program.arena_bytes, "the arena"},
      frozen_{program.host_bytes, "frozen weights"},
      layout_{scratch_layout(program, cuda_kernels(), cuda_attentions(), real::gemm_workspace)},
      scratch_{layout_.bytes, "workspaces and tables beside the arena"},
      step_{step_memory(layout_, program, scratch_.at(0))} {}

void ProgramMemory::fill_tables(cudaStream_t stream) {
  reset_scales(step_.coded, cuda_kernels(), stream);
  for (std::size_t i = 0; i < program_.buckets.size(); ++i) {
    const std::vector<kernels::Range> ranges = decay_ranges(program_.buckets[i]);
    check(cudaMemcpy(scratch_.at(layout_.decay[i]), ranges.data(),
                     ranges.size() * sizeof(kernels::Range), cudaMemcpyHostToDevice),
          "cudaMemcpy");
  }
  // A copy from pageable memory may be under way still when cudaMemcpy returns (CUDA Runtime API,
  // "API synchronization behavior"), and no stream of a step waits for the default stream.
  check(cudaDeviceSynchronize(), "filling tables");
  const OpShapes shapes{program_};
  for (const BoundOp& op : program_.ops) {
    const std::int64_t turned = shapes.turned(op);
    if (turned == 0) continue;
    cuda_kernels().fill_rotary_table(program_.plan->layout.sequence_length, turned,
                                     kernels::rotary_base, step_.rotary_table, stream);
    break;
  }
}

}  // namespace real
