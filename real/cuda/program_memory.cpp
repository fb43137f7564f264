#include "real/cuda/program_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

namespace real {
namespace {

constexpr double rotary_base = 10'000;  // Su et al. 2021

ScratchLayout scratch_of(const BoundProgram& program) {
  const OpShapes shapes{program};
  const sim::Layout& layout = program.plan->layout;
  ScratchNeeds needs{
      .ids = layout.micro_batches() * layout.micro_batch * (layout.sequence_length + 1),
      .gemm_workspace = gemm_workspace};
  for (const BoundOp& op : program.ops) {
    if (op.collective != nullptr || op.transfer != nullptr) continue;
    auto& bytes = needs.workspaces[static_cast<std::size_t>(op.stream)];
    bytes = std::max(bytes, shapes.workspace_of(op));
    if (op.model_op != nullptr && op.model_op->function == sim::Function::rotary) {
      needs.rotary_table =
          kernels::rotary_table_bytes(layout.sequence_length, program.model->attention.head_dim);
    }
  }
  for (const BoundBucket& bucket : program.buckets)
    needs.decay.push_back(std::ssize(bucket.decayed));
  return scratch_layout(needs);
}

}  // namespace

// Work queues of the device: at least one for each stream of a plan. Two streams that share one
// wait for each other in the order of issue, and a receive must not wait for a send that waits for
// it. 1 to 32, 8 by default (CUDA C++ Programming Guide, "CUDA Environment Variables"); under the
// Multi-Process Service a client may get fewer unless it asks (MPS, "CUDA_DEVICE_MAX_CONNECTIONS").
int select_device(int device) {
  static_assert(sim::stream_count <= 16);
  // Read when the process first uses CUDA; what the user has set stays.
  (void)setenv("CUDA_DEVICE_MAX_CONNECTIONS", "16", 0);
  int count = 0;
  check(cudaGetDeviceCount(&count), "no GPU can be used");
  if (device < 0 || device >= count) {
    throw std::runtime_error(
        fmt::format("CUDA: there is no GPU {}; this process sees {}", device, count));
  }
  check(cudaSetDevice(device), "cudaSetDevice");
  return device;
}

ProgramMemory::ProgramMemory(const BoundProgram& program)
    : program_{program},
      arena_{program.arena_bytes, "the arena"},
      layout_{scratch_of(program)},
      scratch_{layout_.bytes, "workspaces and tables beside the arena"},
      step_{place()} {}

StepMemory ProgramMemory::place() const {
  const auto at = [&](std::int64_t offset) { return scratch_.at(offset); };
  StepMemory memory;
  memory.adam = reinterpret_cast<kernels::AdamStep*>(at(layout_.upload));
  memory.ids = reinterpret_cast<std::int32_t*>(at(layout_.ids));
  auto* results = reinterpret_cast<StepResults*>(at(layout_.results));
  memory.loss = &results->loss;
  memory.square_sum = &results->square_sum;
  memory.norm = &results->norm;
  memory.clip_scale = &results->clip_scale;
  memory.first_not_finite = &results->first_not_finite;
  memory.rotary_table = reinterpret_cast<float*>(at(layout_.rotary_table));
  for (std::size_t i = 0; i < program_.buckets.size(); ++i) {
    memory.decay.push_back({.ranges = reinterpret_cast<const kernels::Range*>(at(layout_.decay[i])),
                            .count = std::ssize(program_.buckets[i].decayed)});
  }
  const auto streams = static_cast<std::size_t>(sim::stream_count);
  for (std::size_t s = 0; s < streams; ++s) {
    const std::int64_t end = s + 1 < streams ? layout_.workspaces[s + 1] : layout_.gemm_workspace;
    memory.workspaces[s] = {.memory = at(layout_.workspaces[s]),
                            .bytes = end - layout_.workspaces[s]};
  }
  return memory;
}

void ProgramMemory::fill_tables(cudaStream_t stream) {
  for (std::size_t i = 0; i < program_.buckets.size(); ++i) {
    std::vector<kernels::Range> ranges;
    for (const OwnedRange& range : program_.buckets[i].decayed) {
      ranges.push_back({.at = static_cast<std::int64_t>(range.first),
                        .elements = static_cast<std::int64_t>(range.count)});
    }
    check(cudaMemcpy(scratch_.at(layout_.decay[i]), ranges.data(),
                     ranges.size() * sizeof(kernels::Range), cudaMemcpyHostToDevice),
          "cudaMemcpy");
  }
  // A copy from pageable memory may be under way still when cudaMemcpy returns (CUDA Runtime API,
  // "API synchronization behavior"), and no stream of a step waits for the default stream.
  check(cudaDeviceSynchronize(), "filling tables");
  for (const BoundOp& op : program_.ops) {
    if (op.model_op == nullptr || op.model_op->function != sim::Function::rotary) continue;
    kernels::fill_rotary_table(program_.plan->layout.sequence_length,
                               program_.model->attention.head_dim, rotary_base, step_.rotary_table,
                               stream);
    break;
  }
}

}  // namespace real
