#include "sim/collective/communicator_memory.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "sim/base/rounding.hpp"
#include "sim/collective/nccl_tuning.hpp"

namespace sim {
namespace {

constexpr std::int64_t mib = std::int64_t{1} << 20;
// 640 threads, 120 values of 8 bytes each, 8 steps.
constexpr std::int64_t ll128_buffer = std::int64_t{640} * 120 * 8 * 8;
constexpr std::int64_t simple_buffer = 4 * mib;
constexpr std::int64_t ll_buffer = mib / 2;
constexpr std::int64_t flags = 4096;
// RCCL has 256 threads, with 8 lines of 16 bytes (LL) and 28 values of 8 (LL128) each (ROCm/rccl at
// 0cbce2a7, src/include/device.h, src/init.cc).
constexpr std::int64_t rccl_ll_buffer = std::int64_t{256} * 8 * 16 * 8;
constexpr std::int64_t rccl_ll128_buffer = std::int64_t{256} * 28 * 8 * 8;

std::int64_t in_pages(std::int64_t bytes) {
  constexpr std::int64_t page = 2 * mib;  // CUDA_IPC_MIN, and what cudaMalloc hands out
  return round_up(bytes, page);
}

// Both ends of a direction within a node, on one rank: what it sends by and what it receives by.
std::int64_t pair_within(Generation generation) {
  if (is_cdna(generation))
    return in_pages(flags) + in_pages(flags + rccl_ll_buffer + rccl_ll128_buffer + simple_buffer);
  const bool reads = generation == Generation::ampere;
  const std::int64_t sent = flags + (reads ? simple_buffer : 0);
  const std::int64_t received = flags + ll_buffer + ll128_buffer + (reads ? 0 : simple_buffer);
  return in_pages(sent) + in_pages(received);
}
constexpr std::int64_t network_ends = 2;  // one to send, one to receive

// In eighths of nothing: exact enough as whole bytes over all channels.
std::int64_t rings_and_trees(const NcclGroup& group) {
  const std::int64_t channels = group.blocks;
  const std::int64_t local = group.ranks_per_node;
  const std::int64_t within = channels * pair_within(group.generation);
  if (group.nodes == 1) return group.ranks == 2 ? within : 2 * within;
  // Every channel leaves a node by one of its ranks and comes in by another. There the ring's
  // neighbour is over the network, and the trees' up to three: a parent and two children.
  const std::int64_t end = in_pages(ll128_buffer + simple_buffer);
  const std::int64_t trees = std::min(3, group.nodes - 1);
  const std::int64_t across = channels * network_ends * end * (1 + trees) / local;
  return 2 * within * (local - 1) / local + across;
}

std::int64_t in_switch(const NcclGroup& group) {
  if (!group.nvls) return 0;
  constexpr std::int64_t chunk = 131'072, steps = 8;  // NCCL_NVLS_CHUNKSIZE, NCCL_STEPS
  constexpr std::int64_t most_heads = 32;             // NCCL_MAX_NVLS_ARITY, src/include/device.h
  const std::int64_t heads = std::min<std::int64_t>(group.ranks_per_node, most_heads);
  return std::int64_t{group.nvls_channels} * 2 * chunk * steps * heads;
}

}  // namespace

Bytes communicator_memory(const NcclGroup& group) {
  if (!group.nccl || group.ranks < 2) return Bytes{};
  return Bytes{rings_and_trees(group) + in_switch(group)};
}

std::optional<Bytes> KnownCommunicators::find(const std::vector<std::uint32_t>& key) {
  const std::lock_guard lock{mutex_};
  const auto found = known_.find(key);
  return found == known_.end() ? std::nullopt : std::optional{found->second};
}

void KnownCommunicators::add(std::vector<std::uint32_t> key, Bytes memory) {
  constexpr std::size_t most_words = std::size_t{8} << 20;
  const std::lock_guard lock{mutex_};
  if (words_ + key.size() > most_words) return;
  words_ += key.size();
  known_.emplace(std::move(key), memory);
}

CommunicatorMemory::CommunicatorMemory(const Plan& plan, const Cluster& cluster,
                                       KnownCommunicators* known)
    : plan_{plan}, cluster_{cluster}, kept_{known}, known_(plan.groups.size()) {}

Bytes CommunicatorMemory::of_ranks(std::span<const RankId> ranks) {
  if (ranks.size() < 2) return Bytes{};
  if (kept_ == nullptr) return work_out(ranks);
  std::vector<std::uint32_t> key{static_cast<std::uint32_t>(cluster_.gpus_per_node())};
  for (const RankId rank : ranks)
    key.push_back(rank.value);
  if (const std::optional<Bytes> known = kept_->find(key)) return *known;
  const Bytes memory = work_out(ranks);
  kept_->add(std::move(key), memory);
  return memory;
}

Bytes CommunicatorMemory::work_out(std::span<const RankId> ranks) {
  gpus_.clear();
  for (const RankId rank : ranks)
    gpus_.push_back({rank.value});
  return communicator_memory(nccl_group(cluster_, group_shape(cluster_, gpus_)));
}

Bytes CommunicatorMemory::of_group(std::uint32_t group) {
  std::optional<Bytes>& known = known_.at(group);
  if (!known) known = of_ranks(plan_.groups[group].ranks);
  return *known;
}

Bytes CommunicatorMemory::of_stage(int stage) {
  const RankId rank = rank_of(plan_.layout, {.pipeline = stage});
  Bytes total{};
  const auto& groups = plan_.group_of[rank.value];
  const std::uint32_t data = groups[static_cast<std::size_t>(GroupRole::data)];
  for (std::size_t role = 0; role < groups.size(); ++role) {
    if (groups[role] == Plan::no_group) continue;
    // FSDP over all ranks takes the process group that they all share.
    const bool same = static_cast<GroupRole>(role) == GroupRole::world && data != Plan::no_group &&
                      plan_.groups[data].ranks.size() == plan_.groups[groups[role]].ranks.size() &&
                      plan_.layout.zero_stage == 3;
    if (!same) total += of_group(groups[role]);
  }
  const auto& peers = plan_.peer_of[rank.value];
  for (std::size_t side = 0; side < peers.size(); ++side) {
    if (peers[side] == rank || (side > 0 && peers[side] == peers[0])) continue;
    total += of_ranks(std::array{rank, peers[side]});
  }
  return total;
}

}  // namespace sim
