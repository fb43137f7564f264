// Folded systems of plans on one cluster, kept to be used again: plans whose ranks, groups and
// neighbours are the same (only the batch, the sharding or the schedule differs) are wired alike.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "sim/engine/system.hpp"

namespace sim {

// Large groups of one cluster, by their GPUs: the world is the same for all plans. Thread-safe.
class KnownGroups {
 public:
  static constexpr std::size_t least_ranks = 1024;  // below, working it out costs less

  GroupShape shape(const Cluster& cluster, const std::vector<GpuId>& gpus);
  std::vector<Hop> pattern(const Cluster& cluster, const std::vector<GpuId>& gpus,
                           const Traffic& traffic, int shards);

 private:
  struct Pattern {
    Traffic traffic;
    int shards = 0;
    std::vector<Hop> hops;
  };
  struct Group {
    int gpus_per_node = 0;
    std::vector<GpuId> gpus;
    std::optional<GroupShape> shape;
    std::vector<Pattern> patterns;
  };
  Group* find(const Cluster& cluster, const std::vector<GpuId>& gpus);

  std::mutex mutex_;
  std::deque<Group> groups_;  // oldest first
};

class Wirings {
 public:
  // Wires and folds the plan, from a kept system where one serves. Several threads may call it at
  // once. REQUIRES: every call has the same options, and the same cluster but for the GPUs used per
  // node. Throws Stopped.
  System folded(const Plan& plan, const Cluster& cluster, const SimulationOptions& options,
                const Control& control);

 private:
  using Key = std::vector<std::uint32_t>;
  struct Kept {
    std::uint64_t hash = 0;
    std::shared_ptr<const Key> key;
    std::shared_ptr<const System> system;
  };
  static Key key_of(const Plan& plan, const Cluster& cluster);
  std::vector<Kept> find(std::uint64_t hash, const Key& key);
  void keep(Kept kept);

  KnownGroups groups_;
  std::mutex mutex_;
  std::deque<Kept> kept_;  // oldest first
  std::size_t words_ = 0;  // of all keys
};

}  // namespace sim
