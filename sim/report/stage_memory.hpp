// Memory of every pipeline stage of a plan on a machine.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/memory/block_pool.hpp"
#include "sim/memory/memory.hpp"
#include "sim/plan/plan.hpp"
#include "sim/topology/cluster.hpp"

namespace sim {

class KnownCommunicators;

struct StageMemory {
  int stage = 0;
  MemoryUse use;
  Bytes reserved{};   // the device's own: context, communication library, workspaces
  Bytes fragments{};  // what the allocator holds besides the peak, where it is replayed
  int retries = 0;    // of that allocator in a step; what they cost is not in any time
  // kept: where segments were returned to the device, the most that could not be, with what was
  // asked for.
  Bytes kept{};
  bool replayed = false;
  // allocated: the bytes that the replayed allocator had in use, where the framework has tensors
  // that are not in the plan: of FSDP the buffers of gathers, beside the parameters. Else no more
  // than the peak.
  Bytes allocated{};
  Bytes workspaces{};  // the part of `reserved` that PyTorch counts, as tensors of its own
  Bytes total{};       // peak, fragments and reserved
  Bytes capacity{};
  std::string peak_operator;  // the operator being issued at the peak
  // Offloaded states: of all ranks of a node, and what the node has; 0: its file does not say.
  HostMemoryUse host{};
  Bytes host_capacity{}, disk_capacity{};
  bool fits_host() const {
    return (host_capacity == Bytes{} || host.memory <= host_capacity) &&
           (disk_capacity == Bytes{} || host.disk <= disk_capacity);
  }
  bool fits() const { return total <= capacity && fits_host(); }
  // It fits, but the allocator fills the device and returns segments, whenever it has to.
  bool fits_by_retries() const { return fits() && kept > Bytes{}; }
  // needed() is what has to fit: without what an allocator at its limit would return.
  Bytes needed() const { return fits_by_retries() ? std::max(use.peak, kept) + reserved : total; }
  // As PyTorch counts: torch.cuda.max_memory_allocated(), and max_memory_reserved() where replayed.
  Bytes max_allocated() const { return std::max(use.peak, allocated) + workspaces; }
  Bytes max_reserved() const { return use.peak + fragments + workspaces; }
};

// PlanMemory is what the programs of one plan need of memory, worked out once for many machines.
// One thread at a time; the plan has to outlive it.
class PlanMemory {
 public:
  explicit PlanMemory(const Plan& plan);

  // stages() has the worst program of every stage. It needs no simulation. `known`: of
  // communicators, where many plans are asked about on one cluster.
  std::vector<StageMemory> stages(const Cluster& cluster, KnownCommunicators* known = nullptr);
  // The same without a replay of an allocator, of which nothing is said: no more than it comes to.
  std::vector<StageMemory> least(const Cluster& cluster, KnownCommunicators* known = nullptr);
  // held() is what the allocator takes for a program of Plan::memory_programs() on a device that
  // has `room`.
  CachedMemory held(std::size_t program, Bytes room);

 private:
  struct OfProgram {
    std::optional<MemoryUse> use{};
    std::optional<CachedMemory> unlimited{};                  // as on a device that has enough
    std::optional<std::pair<Bytes, CachedMemory>> limited{};  // the last room that was too little
  };
  const MemoryUse& use(std::size_t program);
  bool gradients_may_be_absent(std::size_t program) const;
  void add_fragments(std::size_t program, StageMemory& stage);
  std::vector<StageMemory> stages(const Cluster& cluster, KnownCommunicators* known, bool replayed);

  const Plan& plan_;
  std::vector<OfProgram> known_;
};

// The same as PlanMemory::stages(), for one machine.
std::vector<StageMemory> stage_memory(const Plan& plan, const Cluster& cluster,
                                      KnownCommunicators* known = nullptr);

}  // namespace sim
