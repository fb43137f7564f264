#include "sim/search/lane_groups.hpp"

namespace sim {
namespace {

// `count` ranks at place(0), place(1), ...
template <class Place>
std::vector<GpuId> line(const Layout& layout, int count, Place place) {
  std::vector<GpuId> members;
  members.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i)
    members.push_back({rank_of(layout, place(i)).value});
  return members;
}

}  // namespace

std::vector<GpuId> lane_group(const Layout& layout, GroupRole role, int stage) {
  const int replicas = layout.replicas();
  const int shards = layout.zero_stage > 0 ? layout.shard_ranks() : 1;
  const auto replica = [&](int at) {
    return RankCoordinates{0, at / layout.context_parallel, stage, at % layout.context_parallel};
  };
  const auto of_stage = [&](int step) {
    return [&layout, stage, step](int i) { return rank_of_stage(layout, stage, i * step); };
  };
  switch (role) {
    case GroupRole::tensor:
      return line(layout, layout.tensor_parallel, [&](int i) {
        return RankCoordinates{i, 0, stage, 0};
      });
    case GroupRole::context:
      return line(layout, layout.context_parallel, [&](int i) {
        return RankCoordinates{0, 0, stage, i};
      });
    case GroupRole::data:
      return line(layout, replicas, replica);
    case GroupRole::shard:
      return line(layout, shards, replica);
    case GroupRole::replicate:
      return line(layout, replicas / shards, [&](int i) { return replica(i * shards); });
    case GroupRole::tied_embedding:
      return line(layout, 2, [&](int i) {
        return RankCoordinates{0, 0, i * (layout.pipeline_parallel - 1), 0};
      });
    case GroupRole::maxima:
      return line(layout, layout.tensor_parallel * replicas, of_stage(1));
    case GroupRole::expert:
      return line(layout, layout.expert_parallel, of_stage(layout.expert_tensor()));
    case GroupRole::expert_tensor:
      return line(layout, layout.expert_tensor(), of_stage(1));
    case GroupRole::expert_data:
      return line(layout, layout.expert_replicas(),
                  of_stage(layout.expert_tensor() * layout.expert_parallel));
    case GroupRole::world:
      break;
  }
  std::vector<GpuId> members(static_cast<std::size_t>(layout.world_size()));
  for (std::uint32_t rank = 0; rank < members.size(); ++rank)
    members[rank] = {rank};
  return members;
}

GroupShape ShapeCache::shape_of(const std::vector<GpuId>& members) const {
  std::vector<std::uint32_t> key;
  key.reserve(members.size());
  for (const GpuId gpu : members)
    key.push_back(gpu.value);
  {
    const std::lock_guard lock{mutex_};
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
  }
  const GroupShape shape = group_shape(cluster_, members);
  const std::lock_guard lock{mutex_};
  return known_.emplace(std::move(key), shape).first->second;
}

}  // namespace sim
