// Device memory that NCCL takes for the buffers of its communicators.
//
// Source: NVIDIA/nccl. Each connection between two ranks of a channel has a buffer per protocol
// (src/init.cc, computeBuffSizes: LL 512 KiB, LL128 4.69 MiB, Simple 4 MiB) and a page of flags,
// in blocks of 2 MiB. Within a node both ends together take 12 MiB per direction and channel
// (src/transport/p2p.cc, p2pSendSetup and p2pRecvSetup; on Ampere Simple's lies at the sender);
// over the network each end keeps those of LL128 and Simple (src/transport/net.cc, *ProxyConnect).
// Rings connect a rank to a neighbour on either side, trees in both directions
// (src/graph/connect.cc), before the first collective. NVLS besides has two buffers per channel and
// head (src/transport/nvls.cc, ncclNvlsBufferSetup).
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "sim/collective/collective_cost.hpp"
#include "sim/plan/plan.hpp"

namespace sim {

struct NcclGroup;

// Memory of a communicator on the rank that has the most of it.
Bytes communicator_memory(const NcclGroup& group);

// KnownCommunicators is the memory of communicators of one cluster, by their GPUs: kept over many
// plans. Thread-safe.
class KnownCommunicators {
 public:
  std::optional<Bytes> find(const std::vector<std::uint32_t>& key);
  void add(std::vector<std::uint32_t> key, Bytes memory);

 private:
  std::mutex mutex_;
  std::map<std::vector<std::uint32_t>, Bytes> known_;
  std::size_t words_ = 0;  // of all keys
};

// CommunicatorMemory is the memory of a plan's communicators on one of its ranks.
class CommunicatorMemory {
 public:
  // All have to outlive it. `known` may be null; else it is of the same cluster, but for the GPUs
  // used per node.
  CommunicatorMemory(const Plan& plan, const Cluster& cluster, KnownCommunicators* known = nullptr);

  // Memory of all communicators that a rank of a stage opens: one per group that it is a member of,
  // and one per neighbour in the pipeline (PyTorch, ProcessGroupNCCL: a message between two ranks
  // has a communicator of these two). Groups of one rank open none that has buffers.
  Bytes of_stage(int stage);

 private:
  Bytes of_group(std::uint32_t group);  // of the plan's; worked out once
  Bytes of_ranks(std::span<const RankId> ranks);
  Bytes work_out(std::span<const RankId> ranks);

  const Plan& plan_;
  const Cluster& cluster_;
  KnownCommunicators* kept_ = nullptr;
  std::vector<std::optional<Bytes>> known_;  // by group
  std::vector<GpuId> gpus_;                  // scratch
};

}  // namespace sim
