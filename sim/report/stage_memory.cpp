#include "sim/report/stage_memory.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <utility>

#include "sim/collective/communicator_memory.hpp"
#include "sim/memory/caching_allocator.hpp"
#include "sim/plan/server_exchange.hpp"

namespace sim {
namespace {

// server_memory() is what servers hold on the node that has most of it.
Bytes server_memory(const Plan& plan, const Cluster& cluster) {
  const ServerShares shares = server_shares(plan.layout, cluster.gpus_per_node());
  const Bytes held = server_bytes(plan.layout, plan.parameters).held;
  return Bytes{std::llround(static_cast<double>(held.count()) *
                            std::max(shares.of_node, shares.of_machine))};
}

HostMemoryUse host_of_node(const Plan& plan, const Program& program, const Cluster& cluster) {
  HostMemoryUse host = host_memory_use(program, plan.layout);
  const int ranks = std::min(cluster.gpus_per_node(), plan.layout.world_size());
  host.memory = host.memory * ranks;
  host.disk = host.disk * ranks;
  if (plan.layout.has_servers()) host.memory += server_memory(plan, cluster);
  return host;
}

// The programs of memory_programs(), each on every pool that has ranks which run it; a plan of one
// stage has ranks of others, too.
std::set<std::pair<std::size_t, std::size_t>> programs_on_pools(const Plan& plan,
                                                                const Cluster& cluster) {
  const std::vector<Program>& programs = plan.memory_programs();
  std::set<std::pair<std::size_t, std::size_t>> found;
  if (cluster.pools() == 1) {
    for (std::size_t i = 0; i < programs.size(); ++i)
      found.emplace(i, 0);
    return found;
  }
  const auto stages = static_cast<std::size_t>(plan.layout.pipeline_parallel);
  const bool is_whole = programs.size() >= stages;
  for (std::uint32_t rank = 0; rank < plan.program_of_rank.size(); ++rank) {
    const std::size_t program = plan.program_of_rank[rank];
    const std::size_t own = is_whole ? program : program / stages;
    if (is_whole || static_cast<std::size_t>(programs[own].stage) == program % stages)
      found.emplace(own, cluster.pool_of({rank}));
  }
  return found;
}

// They are not all there at the peak: `allocated` is what the replayed allocator had in use.
void leave_out_gradients(MemoryUse& use, Bytes allocated) {
  Bytes& gradients = use.at_peak[static_cast<std::size_t>(BufferCategory::gradients)];
  const Bytes absent = std::clamp(use.peak - allocated, Bytes{}, gradients);
  use.peak = use.peak - absent;
  gradients = gradients - absent;
}

}  // namespace

PlanMemory::PlanMemory(const Plan& plan) : plan_{plan}, known_(plan.memory_programs().size()) {}

const MemoryUse& PlanMemory::use(std::size_t program) {
  std::optional<MemoryUse>& known = known_[program].use;
  if (!known) known = memory_use(plan_.memory_programs()[program]);
  return *known;
}

// A limit that is never met changes nothing.
CachedMemory PlanMemory::held(std::size_t program, Bytes room) {
  OfProgram& known = known_[program];
  if (known.unlimited && known.unlimited->reserved <= room) return *known.unlimited;
  if (known.limited && known.limited->first == room) return known.limited->second;
  const CachedMemory made = cached_memory(plan_.memory_programs()[program], room);
  if (made.limited)
    known.limited.emplace(room, made);
  else
    known.unlimited = made;
  return made;
}

void PlanMemory::add_fragments(std::size_t program, StageMemory& stage) {
  const Bytes room = stage.capacity - stage.reserved;
  const CachedMemory taken = held(program, room);
  if (gradients_may_be_absent(program)) leave_out_gradients(stage.use, taken.allocated);
  stage.fragments = std::max(Bytes{}, taken.reserved - stage.use.peak);
  stage.retries = taken.retries;
  stage.kept = taken.kept;
  const Allocation& allocation = plan_.memory_programs()[program].allocation;
  if (allocation.copies_gathered || allocation.flat_parameters) stage.allocated = taken.allocated;
}

// Gradients that each backward pass makes anew (zero_grad(set_to_none=True)).
bool PlanMemory::gradients_may_be_absent(std::size_t program) const {
  return plan_.memory_programs()[program].allocation.separate_gradients &&
         plan_.layout.data_parallel == 1;
}

std::vector<StageMemory> PlanMemory::stages(const Cluster& cluster, KnownCommunicators* known) {
  return stages(cluster, known, plan_.caching_allocator);
}

std::vector<StageMemory> PlanMemory::least(const Cluster& cluster, KnownCommunicators* known) {
  return stages(cluster, known, false);
}

std::vector<StageMemory> PlanMemory::stages(const Cluster& cluster, KnownCommunicators* known,
                                            bool replayed) {
  std::vector<StageMemory> stages(static_cast<std::size_t>(plan_.layout.pipeline_parallel));
  CommunicatorMemory communicators{plan_, cluster, known};
  const std::vector<Program>& programs = plan_.memory_programs();
  for (const auto& [i, pool] : programs_on_pools(plan_, cluster)) {
    const Program& program = programs[i];
    const Cluster here_on = cluster.of_pool(pool);
    const Device& device = here_on.device();
    StageMemory here{
        .stage = program.stage,
        .use = use(i),
        .reserved = device.reserved + plan_.workspaces + communicators.of_stage(program.stage),
        .fragments = {},
        .retries = 0,
        .kept = {},
        .replayed = replayed,
        .allocated = {},
        .workspaces = device.workspaces + plan_.workspaces,
        .total = {},
        .capacity = device.memory,
        .peak_operator = {},
        .host = host_of_node(plan_, program, here_on),
        .host_capacity = here_on.host().memory,
        .disk_capacity = here_on.host().disk};
    if (replayed) {
      add_fragments(i, here);
    } else if (plan_.caching_allocator && gradients_may_be_absent(i)) {
      leave_out_gradients(here.use, Bytes{});
    }
    here.total = here.use.peak + here.fragments + here.reserved;
    if (here.use.peak_op.value < program.size())
      here.peak_operator = program.name(here.use.peak_op);
    StageMemory& worst = stages.at(static_cast<std::size_t>(program.stage));
    const auto missing = [](const StageMemory& one) { return one.total - one.capacity; };
    if (worst.capacity == Bytes{} || missing(here) > missing(worst)) worst = std::move(here);
  }
  return stages;
}

std::vector<StageMemory> stage_memory(const Plan& plan, const Cluster& cluster,
                                      KnownCommunicators* known) {
  return PlanMemory{plan}.stages(cluster, known);
}

}  // namespace sim
