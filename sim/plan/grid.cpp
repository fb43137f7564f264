#include "sim/plan/grid.hpp"

#include <algorithm>

#include "sim/base/check.hpp"
#include "sim/schedule/placement.hpp"

namespace sim {
namespace {

int size_of(const Layout& layout, Dimension dimension) {
  switch (dimension) {
    case Dimension::tensor:
      return layout.tensor_parallel;
    case Dimension::context:
      return layout.context_parallel;
    case Dimension::data:
      return layout.data_parallel;
    case Dimension::pipeline:
      return layout.pipeline_parallel;
  }
  return 1;
}

int& coordinate(RankCoordinates& at, Dimension dimension) {
  switch (dimension) {
    case Dimension::context:
      return at.context;
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

  // The ranks at place(0) .. place(count - 1).
  template <class Place>
  void add(GroupRole role, int count, Place place) {
    if (count < 2) return;
    const auto index = static_cast<std::uint32_t>(plan_.groups.size());
    Group& group = plan_.groups.emplace_back();
    group.role = role;
    group.ranks.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) {
      const RankId rank = rank_of(layout_, place(i));
      group.ranks.push_back(rank);
      plan_.group_of[rank.value][static_cast<std::size_t>(role)] = index;
    }
  }

 private:
  Plan& plan_;
  const Layout& layout_;
};

// Ranks with the same parameters, those of one sequence next to each other: a shard group smaller
// than all takes these first (torchtitan's mesh dp_shard_cp).
void make_data_groups(const Layout& layout, GroupMaker& maker) {
  const int replicas = layout.replicas();
  const int shards = layout.zero_stage > 0 ? layout.shard_ranks() : 1;
  const bool hybrid = shards > 1 && shards < replicas;
  for (int pipeline = 0; pipeline < layout.pipeline_parallel; ++pipeline) {
    for (int tensor = 0; tensor < layout.tensor_parallel; ++tensor) {
      const auto line = [&, tensor, pipeline](int first, int step) {
        return [&layout, tensor, pipeline, first, step](int i) {
          const int at = first + i * step;
          return RankCoordinates{tensor, at / layout.context_parallel, pipeline,
                                 at % layout.context_parallel};
        };
      };
      maker.add(GroupRole::data, replicas, line(0, 1));
      if (!hybrid) continue;
      for (int first = 0; first < replicas; first += shards)
        maker.add(GroupRole::shard, shards, line(first, 1));
      for (int first = 0; first < shards; ++first)
        maker.add(GroupRole::replicate, replicas / shards, line(first, shards));
    }
  }
}

// Of the ranks that differ in tensor or context alone.
void make_layer_groups(const Layout& layout, GroupMaker& maker) {
  for (int pipeline = 0; pipeline < layout.pipeline_parallel; ++pipeline) {
    for (int data = 0; data < layout.data_parallel; ++data) {
      for (int context = 0; context < layout.context_parallel; ++context) {
        maker.add(GroupRole::tensor, layout.tensor_parallel, [&](int i) {
          return RankCoordinates{i, data, pipeline, context};
        });
      }
      for (int tensor = 0; tensor < layout.tensor_parallel; ++tensor) {
        maker.add(GroupRole::context, layout.context_parallel, [&](int i) {
          return RankCoordinates{tensor, data, pipeline, i};
        });
      }
    }
  }
}

// All ranks of a stage (Megatron-LM, core/parallel_state.py, get_amax_reduction_group: "tp-cp-dp").
void make_stage_groups(const Layout& layout, GroupMaker& maker) {
  const int ranks = layout.tensor_parallel * layout.replicas();
  for (int pipeline = 0; pipeline < layout.pipeline_parallel; ++pipeline)
    maker.add(GroupRole::maxima, ranks, [&](int i) { return rank_of_stage(layout, pipeline, i); });
}

// The ranks of a stage once more: expert-tensor ranks next to each other, then expert-parallel ones
// (Megatron-LM, core/parallel_state.py, expert_decoder_rank_generator).
void make_expert_groups(const Layout& layout, GroupMaker& maker) {
  const int tensor = layout.expert_tensor(), experts = layout.expert_parallel;
  const int copies = layout.expert_replicas();
  for (int pipeline = 0; pipeline < layout.pipeline_parallel; ++pipeline) {
    const auto line = [&, pipeline](int first, int step) {
      return [&layout, pipeline, first, step](int i) {
        return rank_of_stage(layout, pipeline, first + i * step);
      };
    };
    for (int copy = 0; copy < copies; ++copy) {
      const int first = copy * tensor * experts;
      for (int t = 0; t < tensor; ++t)
        maker.add(GroupRole::expert, experts, line(first + t, tensor));
      for (int e = 0; e < experts; ++e)
        maker.add(GroupRole::expert_tensor, tensor, line(first + e * tensor, 1));
    }
    for (int first = 0; first < tensor * experts; ++first)
      maker.add(GroupRole::expert_data, copies, line(first, tensor * experts));
  }
}

// The line of stages through (tensor, data, 0, context).
void make_line(Plan& plan, const RankCoordinates& first, bool tied_embedding, GroupMaker& maker) {
  const Layout& layout = plan.layout;
  const int stages = layout.pipeline_parallel;
  const auto at = [&](int stage) {
    return RankCoordinates{first.tensor, first.data, stage % stages, first.context};
  };
  if (tied_embedding && !Placement{layout}.ends_where_it_begins())
    maker.add(GroupRole::tied_embedding, 2, [&](int i) { return at(i * (stages - 1)); });
  for (int stage = 0; stage < stages; ++stage) {
    plan.peer_of[rank_of(layout, at(stage)).value] = {rank_of(layout, at(stage + 1)),
                                                      rank_of(layout, at(stage + stages - 1))};
  }
}

}  // namespace

RankCoordinates rank_of_stage(const Layout& layout, int pipeline, int i) {
  const int replica = i / layout.tensor_parallel;
  return {i % layout.tensor_parallel, replica / layout.context_parallel, pipeline,
          replica % layout.context_parallel};
}

// Groups lie in blocks of all ranks up to and with the tensor dimension.
bool tensor_within_nodes(const Layout& layout, int gpus_per_node) {
  int block = 1;
  for (const Dimension dimension : layout.placement) {
    block *= size_of(layout, dimension);
    if (dimension == Dimension::tensor) break;
  }
  return layout.tensor_parallel == 1 || layout.world_size() <= gpus_per_node ||
         gpus_per_node % block == 0;
}

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

void make_groups(Plan& plan, FurtherGroups further) {
  const Layout& layout = plan.layout;
  const auto world = static_cast<std::size_t>(layout.world_size());
  std::array<std::uint32_t, group_role_count> nowhere{};
  nowhere.fill(Plan::no_group);
  plan.group_of.assign(world, nowhere);
  plan.peer_of.resize(world);
  GroupMaker maker{plan};
  make_layer_groups(layout, maker);
  make_data_groups(layout, maker);
  for (int data = 0; data < layout.data_parallel; ++data) {
    for (int context = 0; context < layout.context_parallel; ++context) {
      for (int tensor = 0; tensor < layout.tensor_parallel; ++tensor)
        make_line(plan, {tensor, data, 0, context}, further.tied_embedding, maker);
    }
  }
  if (further.maxima) make_stage_groups(layout, maker);
  if (further.experts) make_expert_groups(layout, maker);
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
