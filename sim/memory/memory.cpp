#include "sim/memory/memory.hpp"

#include <algorithm>

#include "sim/base/check.hpp"

namespace sim {
namespace {

class Heap {
 public:
  explicit Heap(const Program& program) : program_{program}, alive_(program.buffers.size()) {}

  void allocate(BufferId id) {
    if (alive_[id.value]) return;
    alive_[id.value] = true;
    const Buffer& buffer = program_.buffers[id.value];
    const auto category = static_cast<std::size_t>(buffer.category);
    now_ += buffer.size;
    by_category_[category] += buffer.size;
    if (by_category_[category].count() > use.peak_of[category].count()) {
      use.peak_of[category] = by_category_[category];
    }
  }

  void release(BufferId id) {
    SIM_CHECK(alive_[id.value], "freed while not alive:", id.value);
    alive_[id.value] = false;
    const Buffer& buffer = program_.buffers[id.value];
    now_ -= buffer.size;
    by_category_[static_cast<std::size_t>(buffer.category)] -= buffer.size;
  }

  void note_peak(OpId op) {
    if (now_.count() <= use.peak.count()) return;
    use.peak = now_;
    use.at_peak = by_category_;
    use.peak_op = op;
  }

  MemoryUse use;

 private:
  const Program& program_;
  std::vector<bool> alive_;
  Bytes now_{};
  std::array<Bytes, buffer_category_count> by_category_{};
};

}  // namespace

MemoryUse memory_use(const Program& program) {
  Heap heap{program};
  for (std::uint32_t i = 0; i < program.buffers.size(); ++i) {
    if (program.buffers[i].persistent) heap.allocate(BufferId{i});
  }
  heap.note_peak(OpId{0});
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    const auto uses = program.buffer_uses(OpId{i});
    for (const BufferUse& use : uses) {
      if (use.access == Access::write) heap.allocate(use.buffer);
    }
    heap.note_peak(OpId{i});
    for (const BufferUse& use : uses) {
      if (use.access == Access::free) heap.release(use.buffer);
    }
  }
  return heap.use;
}

namespace {

// Moves a buffer of each bucket from the host's memory to disk, and adds the buffers of the host
// through which it passes.
void put_on_disk(const Program& program, BufferId ParameterBucket::*part, int buffers,
                 HostMemoryUse& use) {
  Bytes largest{};
  for (const ParameterBucket& bucket : program.parameter_buckets) {
    if ((bucket.*part).value == UINT32_MAX) continue;
    const Bytes bytes = program.buffers[(bucket.*part).value].host;
    use.disk += bytes;
    use.memory -= bytes;
    largest = std::max(largest, bytes);
  }
  use.memory += largest * buffers;
}

}  // namespace

// For states on NVMe the host holds two buffers in turns, of the largest bucket each; for
// parameters five (deepspeedai/DeepSpeed, runtime/zero/offload_config.py, buffer_count).
HostMemoryUse host_memory_use(const Program& program, const Layout& layout) {
  HostMemoryUse use;
  for (const Buffer& buffer : program.buffers)
    use.memory += buffer.host;
  if (layout.offload_optimizer == OffloadTarget::nvme)
    put_on_disk(program, &ParameterBucket::host_states, 2, use);
  if (layout.offload_parameters == OffloadTarget::nvme)
    put_on_disk(program, &ParameterBucket::host_weight, 5, use);
  return use;
}

}  // namespace sim
