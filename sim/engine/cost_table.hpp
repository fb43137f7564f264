// Costs looked up by the engine, computed once per distinct kernel, message and group shape.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/engine/host_issue.hpp"
#include "sim/engine/simulate.hpp"

namespace sim {

// Kernels of one program on one device, slowed by one factor; positions are of the compute stream.
struct LaneCosts {
  std::vector<std::int64_t> start;   // ps: start[i] = sum of the durations before position i
  std::vector<std::int32_t> sm;      // SMs in use, in 1/1024 SM
  std::vector<std::int64_t> memory;  // device memory traffic in bytes/s
  std::vector<bool> persistent;      // KernelCost::persistent
  std::vector<bool> late_blocks;     // of a persistent kernel, behind the others: not abreast
  // host_slack[i]: earliest (begin - start[i]), with times from the begin of the host's phase, at
  // which the run of kernels from i to the end of its segment never waits for the host.
  std::vector<std::int64_t> host_slack;
  // Times of every kernel of the program, for those that run beside communication (casts of
  // gradient buckets): indexed by Program::work.
  std::vector<Duration> kernel_time;
  std::vector<std::int64_t> kernel_memory;
  // shares_device: communication holds a stated share of the device, up to all of it. Kernels stand
  // still then, and a kernel on a communication stream holds all of it too. Otherwise a kernel
  // keeps one SM.
  bool shares_device = false;
  std::int64_t device_sm = 0;      // in 1/1024 SM
  std::int64_t device_memory = 0;  // bytes/s
  std::int64_t duration(std::uint32_t position) const {
    return start[position + 1] - start[position];
  }
};

// KernelPricing tells how long kernels take on the devices of a cluster when `ranks` of them work
// together: the one place where the simulation and the bounds of a search ask. Of several pools
// together, on the pool that is fastest at each kernel.
class KernelPricing {
 public:
  KernelPricing(const Cluster& cluster, const SimulationOptions& options, int ranks);
  std::vector<KernelCost> costs_of(const Program& program) const;  // by Program::kernels

 private:
  void free_memory_traffic();
  std::vector<KernelCost> least_of_pools(const Program& program) const;

  KernelCost host_cost(const Kernel& kernel) const;

  std::vector<KernelPricing> pools_;  // of several pools together; else empty
  Device device_;
  const SimulationOptions options_;
  double slowest_ = 1;
  // Rates of the host for one rank, while all ranks of a node ask for them.
  Bandwidth host_copy_{}, host_memory_{}, disk_read_{}, disk_write_{};
};

// The order of a program's operators per stream, with cross-stream dependencies as positions.
struct StreamPosition {
  std::uint32_t stream : 4 = 0;
  std::uint32_t position : 28 = 0;
};
// Ends when the host has issued all of it and the last operators of the streams have finished.
struct HostPhase {
  std::int64_t length = 0;                           // ps that the host needs
  std::array<std::uint32_t, stream_count> needed{};  // operators done, by stream
};
struct ProgramIndex {
  std::array<std::vector<OpId>, stream_count> order;
  std::vector<std::uint32_t> position;     // of each operator in its stream
  std::vector<StreamPosition> dependency;  // parallel to Program::dependency
  // The host issues in phases: between two, it waits for the device. By operator, its phase, and
  // how long after the phase has begun the host has issued it, in ps.
  std::vector<std::uint32_t> phase;
  std::vector<std::int64_t> issued;
  std::vector<HostPhase> phases;
  // End (exclusive) of the segment that starts at a compute position: a run of kernels whose inner
  // boundaries no other stream watches and no dependency enters.
  std::vector<std::uint32_t> segment_end;
  std::uint32_t used_streams = 0;  // bit mask
};
// `captured`: parts of layers that graphs replay, each issued as one kernel.
ProgramIndex index_program(const Program& program, const HostIssue& host_issue,
                           const std::vector<GraphModule>& captured = {});

LaneCosts lane_costs(const Program& program, const ProgramIndex& index,
                     std::span<const KernelCost> kernels, const Device& device, double factor);

// Distinct requests over all programs (collectives first, then transfers), and for each program the
// number of each of its collectives and transfers.
struct RequestTable {
  std::vector<Collective> collectives;
  std::vector<Bytes> transfers;
  std::vector<std::vector<std::uint32_t>> of_collective;  // [program][work]
  std::vector<std::vector<std::uint32_t>> of_transfer;    // [program][work]
  std::size_t size() const { return collectives.size() + transfers.size(); }
};
RequestTable collect_requests(std::span<const Program> programs);

// A request on a group shape as the engine runs it.
struct CommCost {
  Duration latency{};
  Duration transfer{};
  std::int64_t rate = 1;        // bytes/s at full rate through a weight of 65536
  std::int64_t link_bytes = 0;  // of one call, through a weight of 65536
  std::int64_t memory = 0;      // device memory bytes/s on every member at full rate
  std::int32_t sm = 0;          // in 1/1024 SM
  std::int32_t flows = 1;       // that `rate` is made of
  Algorithm algorithm = Algorithm::direct;
  Protocol protocol = Protocol::simple;
  bool measured = false;
};
// A call that puts less than a packet (the 4 KiB MTU of InfiniBand) on a link is all latency: it
// takes its time and loads nothing.
CommCost comm_cost(const CollectiveCost& cost, const Device& device);

// The choice of algorithm and protocol that the options ask for; an all-to-all is a send and a
// receive per peer, for which there is nothing to choose.
CollectiveChoice choice_for(const Collective& request, const SimulationOptions& options);

// A collective of a group in this role, and a message between pipeline neighbours, as the options
// of a simulation want them.
CommCost priced_collective(const Cluster& cluster, const GroupShape& shape,
                           const Collective& request, const SimulationOptions& options);
CommCost priced_transfer(const Cluster& cluster, const Route& route, Bytes bytes,
                         const SimulationOptions& options);

}  // namespace sim
