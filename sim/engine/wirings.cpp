#include "sim/engine/wirings.hpp"

#include <algorithm>
#include <utility>

#include "sim/base/random.hpp"
#include "sim/engine/fold.hpp"

namespace sim {
namespace {

constexpr std::size_t most_words = std::size_t{32} << 20;

std::uint64_t hash_of(const std::vector<std::uint32_t>& words) {
  std::uint64_t hash = words.size();
  for (const std::uint32_t word : words)
    hash = mix64(hash ^ word);
  return hash;
}

}  // namespace

// The mutex is held. Adds the group if it is not there.
KnownGroups::Group* KnownGroups::find(const Cluster& cluster, const std::vector<GpuId>& gpus) {
  constexpr std::size_t most_groups = 16;
  for (Group& group : groups_)
    if (group.gpus_per_node == cluster.gpus_per_node() && group.gpus == gpus) return &group;
  if (groups_.size() == most_groups) groups_.pop_front();
  groups_.push_back(
      {.gpus_per_node = cluster.gpus_per_node(), .gpus = gpus, .shape = {}, .patterns = {}});
  return &groups_.back();
}

GroupShape KnownGroups::shape(const Cluster& cluster, const std::vector<GpuId>& gpus) {
  const std::lock_guard lock{mutex_};
  Group* group = find(cluster, gpus);
  if (!group->shape) group->shape = group_shape(cluster, gpus);
  return *group->shape;
}

std::vector<Hop> KnownGroups::pattern(const Cluster& cluster, const std::vector<GpuId>& gpus,
                                      const Traffic& traffic, int shards) {
  const std::lock_guard lock{mutex_};
  Group* group = find(cluster, gpus);
  for (const Pattern& known : group->patterns)
    if (known.traffic == traffic && known.shards == shards) return known.hops;
  group->patterns.push_back(
      {traffic, shards,
       collective_pattern(cluster, gpus, traffic.kind, traffic.algorithm, shards)});
  return group->patterns.back().hops;
}

// All of a plan and a machine that wiring looks at, beside the requests of the programs.
Wirings::Key Wirings::key_of(const Plan& plan, const Cluster& cluster) {
  Key key{static_cast<std::uint32_t>(cluster.gpus_per_node()),
          static_cast<std::uint32_t>(plan.layout.pipeline_parallel),
          static_cast<std::uint32_t>(plan.groups.size())};
  key.insert(key.end(), plan.program_of_rank.begin(), plan.program_of_rank.end());
  for (const auto& peers : plan.peer_of)
    for (const RankId peer : peers)
      key.push_back(peer.value);
  for (const Group& group : plan.groups) {
    key.push_back(static_cast<std::uint32_t>(group.role));
    key.push_back(static_cast<std::uint32_t>(group.ranks.size()));
    for (const RankId rank : group.ranks)
      key.push_back(rank.value);
  }
  return key;
}

std::vector<Wirings::Kept> Wirings::find(std::uint64_t hash, const Key& key) {
  std::vector<Kept> found;
  const std::lock_guard lock{mutex_};
  for (const Kept& kept : kept_)
    if (kept.hash == hash && *kept.key == key) found.push_back(kept);
  return found;
}

void Wirings::keep(Kept kept) {
  const std::lock_guard lock{mutex_};
  words_ += kept.key->size();
  kept_.push_back(std::move(kept));
  while (words_ > most_words && kept_.size() > 1) {
    words_ -= kept_.front().key->size();
    kept_.pop_front();
  }
}

System Wirings::folded(const Plan& plan, const Cluster& cluster, const SimulationOptions& options,
                       const Control& control) {
  Key key = key_of(plan, cluster);
  const std::uint64_t hash = hash_of(key);
  const std::vector<Kept> alike = find(hash, key);
  for (const Kept& kept : alike) {
    System system = *kept.system;
    if (take_requests(system, plan, cluster, options)) return system;
  }
  System system = fold(wire(plan, cluster, options, control, &groups_), control);
  keep({.hash = hash,
        .key = alike.empty() ? std::make_shared<const Key>(std::move(key)) : alike.front().key,
        .system = std::make_shared<const System>(system)});
  return system;
}

}  // namespace sim
