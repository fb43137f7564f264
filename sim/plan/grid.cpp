#include "sim/plan/grid.hpp"

#include <algorithm>

#include "sim/base/check.hpp"

namespace sim {
namespace {

int size_of(const Layout& layout, Dimension dimension) {
  switch (dimension) {
    case Dimension::tensor:
      return layout.tensor_parallel;
    case Dimension::data:
      return layout.data_parallel;
    case Dimension::pipeline:
      return layout.pipeline_parallel;
  }
  return 1;
}

int& coordinate(RankCoordinates& at, Dimension dimension) {
  switch (dimension) {
    case Dimension::data:
      return at.data;
    case Dimension::pipeline:
      return at.pipeline;
    case Dimension::tensor:
      break;
  }
  return at.tensor;
}

class GroupMaker {
 public:
  explicit GroupMaker(Plan& plan) : plan_{plan}, layout_{plan.layout} {}

  // `count` ranks from `first` on, each `step` further along `dimension`.
  void add(GroupRole role, RankCoordinates first, Dimension dimension, int count, int step) {
    if (count < 2) return;
    const auto index = static_cast<std::uint32_t>(plan_.groups.size());
    Group& group = plan_.groups.emplace_back();
    group.role = role;
    group.ranks.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) {
      RankCoordinates at = first;
      coordinate(at, dimension) += i * step;
      const RankId rank = rank_of(layout_, at);
      group.ranks.push_back(rank);
      plan_.group_of[rank.value][static_cast<std::size_t>(role)] = index;
    }
  }

 private:
  Plan& plan_;
  const Layout& layout_;
};

void make_data_groups(const Layout& layout, GroupMaker& maker) {
  const int shards = layout.zero_stage > 0 ? layout.shard_ranks() : 1;
  const bool hybrid = shards > 1 && shards < layout.data_parallel;
  for (int pipeline = 0; pipeline < layout.pipeline_parallel; ++pipeline) {
    for (int tensor = 0; tensor < layout.tensor_parallel; ++tensor) {
      maker.add(GroupRole::data, {tensor, 0, pipeline}, Dimension::data, layout.data_parallel, 1);
      if (!hybrid) continue;
      for (int first = 0; first < layout.data_parallel; first += shards) {
        maker.add(GroupRole::shard, {tensor, first, pipeline}, Dimension::data, shards, 1);
      }
      for (int first = 0; first < shards; ++first) {
        maker.add(GroupRole::replicate, {tensor, first, pipeline}, Dimension::data,
                  layout.data_parallel / shards, shards);
      }
    }
  }
}

}  // namespace

RankCoordinates coordinates_of(const Layout& layout, RankId rank) {
  RankCoordinates at;
  auto rest = static_cast<int>(rank.value);
  for (const Dimension dimension : layout.placement) {
    const int size = size_of(layout, dimension);
    coordinate(at, dimension) = rest % size;
    rest /= size;
  }
  return at;
}

RankId rank_of(const Layout& layout, RankCoordinates at) {
  int rank = 0;
  int stride = 1;
  for (const Dimension dimension : layout.placement) {
    rank += coordinate(at, dimension) * stride;
    stride *= size_of(layout, dimension);
  }
  return RankId{static_cast<std::uint32_t>(rank)};
}

void make_groups(Plan& plan, bool tied_embedding) {
  const Layout& layout = plan.layout;
  const auto world = static_cast<std::size_t>(layout.world_size());
  std::array<std::uint32_t, group_role_count> nowhere{};
  nowhere.fill(Plan::no_group);
  plan.group_of.assign(world, nowhere);
  plan.peer_of.resize(world);
  GroupMaker maker{plan};
  for (int pipeline = 0; pipeline < layout.pipeline_parallel; ++pipeline) {
    for (int data = 0; data < layout.data_parallel; ++data) {
      maker.add(GroupRole::tensor, {0, data, pipeline}, Dimension::tensor, layout.tensor_parallel,
                1);
    }
  }
  make_data_groups(layout, maker);
  const int stages = layout.pipeline_parallel;
  for (int data = 0; data < layout.data_parallel; ++data) {
    for (int tensor = 0; tensor < layout.tensor_parallel; ++tensor) {
      if (tied_embedding && stages > 1) {
        maker.add(GroupRole::tied_embedding, {tensor, data, 0}, Dimension::pipeline, 2, stages - 1);
      }
      for (int stage = 0; stage < stages; ++stage) {
        const RankId rank = rank_of(layout, {tensor, data, stage});
        plan.peer_of[rank.value] = {rank_of(layout, {tensor, data, (stage + 1) % stages}),
                                    rank_of(layout, {tensor, data, (stage + stages - 1) % stages})};
      }
    }
  }
  if (world > 1) {
    Group& group = plan.groups.emplace_back();
    group.role = GroupRole::world;
    group.ranks.reserve(world);
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      group.ranks.push_back(RankId{rank});
      plan.group_of[rank][static_cast<std::size_t>(GroupRole::world)] =
          static_cast<std::uint32_t>(plan.groups.size() - 1);
    }
  }
}

}  // namespace sim
