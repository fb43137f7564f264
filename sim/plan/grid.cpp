#include "sim/plan/grid.hpp"

#include <algorithm>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/schedule/placement.hpp"

namespace sim {
namespace {

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

// The place of a rank in its stage; tensor ranks are next to each other.
int place_in_stage(const Layout& layout, const RankCoordinates& at) {
  return (at.data * layout.context_parallel + at.context) * layout.tensor_parallel + at.tensor;
}

// count ranks at place(0), place(1), ...; none where there is but one.
template <class Place>
std::vector<RankId> line(const Layout& layout, int count, Place place) {
  std::vector<RankId> members;
  if (count < 2) return members;
  members.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i)
    members.push_back(rank_of(layout, place(i)));
  return members;
}

// Ranks with the same parameters, those of one sequence next to each other: a shard group smaller
// than all takes these first (torchtitan's mesh dp_shard_cp).
std::vector<RankId> data_group(const Layout& layout, GroupRole role, const RankCoordinates& of) {
  const int replicas = layout.replicas(), inner = layout.inner_ranks();
  const int own = of.data * layout.context_parallel + of.context;
  const auto along = [&](int first, int step) {
    return [&layout, of, first, step](int i) {
      const int at = first + i * step;
      return RankCoordinates{of.tensor, at / layout.context_parallel, of.pipeline,
                             at % layout.context_parallel};
    };
  };
  if (role == GroupRole::data) return line(layout, replicas, along(0, 1));
  if (inner == 0) return {};
  if (role == GroupRole::shard) return line(layout, inner, along(own - own % inner, 1));
  return line(layout, replicas / inner, along(own % inner, inner));
}

// Ranks that exchange heads are neighbours (Megatron-LM, core/parallel_state.py,
// create_hierarchical_groups: the first size is the innermost).
std::vector<RankId> part_of_context(const Layout& layout, GroupRole role,
                                    const RankCoordinates& of) {
  const int inner = layout.head_ranks(), place = of.context % inner;
  const bool heads = role == GroupRole::context_heads;
  return line(layout, heads ? inner : layout.head_groups(), [&](int i) {
    const int context = heads ? of.context - place + i : place + i * inner;
    return RankCoordinates{of.tensor, of.data, of.pipeline, context};
  });
}

// The ranks of a stage once more: expert-tensor ranks next to each other, then expert-parallel ones
// (Megatron-LM, core/parallel_state.py, expert_decoder_rank_generator). Those of a shard group lie
// next to each other, so it has whole copies of the experts, or a part of one.
std::vector<RankId> expert_group(const Layout& layout, GroupRole role, const RankCoordinates& of) {
  const int tensor = layout.expert_tensor(), copy = tensor * layout.expert_parallel;
  const int own = place_in_stage(layout, of);
  const auto along = [&](int first, int step) {
    return [&layout, of, first, step](int i) {
      return rank_of_stage(layout, of.pipeline, first + i * step);
    };
  };
  switch (role) {
    case GroupRole::expert:
      return line(layout, layout.expert_parallel, along(own - own % copy + own % tensor, tensor));
    case GroupRole::expert_tensor:
      return line(layout, tensor, along(own - own % tensor, 1));
    case GroupRole::expert_shard:
    case GroupRole::expert_replicate: {
      const int inner = layout.expert_inner_ranks();
      if (inner == 0) return {};
      const int place = own / copy % inner;  // in its shard group
      if (role == GroupRole::expert_shard)
        return line(layout, inner, along(own - place * copy, copy));
      return line(layout, layout.expert_replicas() / inner,
                  along(own % copy + place * copy, inner * copy));
    }
    default:
      return line(layout, layout.expert_replicas(), along(own % copy, copy));
  }
}

// All ranks of the replicas that train together.
std::vector<RankId> local_group(const Layout& layout, const RankCoordinates& of) {
  if (!layout.trains_apart()) return {};
  const int inner = layout.local_ranks;
  const int own = of.data * layout.context_parallel + of.context;
  const int tensor = layout.tensor_parallel, stages = layout.pipeline_parallel;
  return line(layout, inner * tensor * stages, [&](int i) {
    const int replica = own - own % inner + i / tensor % inner;
    return RankCoordinates{i % tensor, replica / layout.context_parallel, i / (tensor * inner),
                           replica % layout.context_parallel};
  });
}

class GroupMaker {
 public:
  explicit GroupMaker(Plan& plan) : plan_{plan} {}

  // The group of the rank at these coordinates, if it has one.
  void add(GroupRole role, const RankCoordinates& of) {
    std::vector<RankId> ranks = group_members(plan_.layout, role, of);
    if (ranks.empty()) return;
    const auto index = static_cast<std::uint32_t>(plan_.groups.size());
    for (const RankId rank : ranks)
      plan_.group_of[rank.value][static_cast<std::size_t>(role)] = index;
    plan_.groups.push_back({role, std::move(ranks)});
  }

 private:
  Plan& plan_;
};

void make_data_groups(const Layout& layout, GroupMaker& maker) {
  const int inner = layout.inner_ranks();
  const auto at = [&](int tensor, int pipeline, int replica) {
    return RankCoordinates{tensor, replica / layout.context_parallel, pipeline,
                           replica % layout.context_parallel};
  };
  for (int pipeline = 0; pipeline < layout.pipeline_parallel; ++pipeline) {
    for (int tensor = 0; tensor < layout.tensor_parallel; ++tensor) {
      maker.add(GroupRole::data, at(tensor, pipeline, 0));
      if (inner == 0) continue;
      for (int first = 0; first < layout.replicas(); first += inner)
        maker.add(GroupRole::shard, at(tensor, pipeline, first));
      for (int first = 0; first < inner; ++first)
        maker.add(GroupRole::replicate, at(tensor, pipeline, first));
    }
  }
}

void make_local_groups(const Layout& layout, GroupMaker& maker) {
  for (int replica = 0; replica < layout.replicas(); replica += layout.local_ranks)
    maker.add(GroupRole::local,
              {0, replica / layout.context_parallel, 0, replica % layout.context_parallel});
}

bool exchanges_heads_round_rings(const Layout& layout) {
  return layout.context_exchange == ContextExchange::all_to_all_ring;
}

void make_parts_of_context(const Layout& layout, RankCoordinates at, GroupMaker& maker) {
  const int inner = layout.head_ranks();
  for (at.context = 0; at.context < layout.context_parallel; at.context += inner)
    maker.add(GroupRole::context_heads, at);
  for (at.context = 0; at.context < inner; ++at.context)
    maker.add(GroupRole::context_ring, at);
}

// Groups of ranks that differ in tensor or context alone.
void make_layer_groups(const Layout& layout, GroupMaker& maker) {
  for (int pipeline = 0; pipeline < layout.pipeline_parallel; ++pipeline) {
    for (int data = 0; data < layout.data_parallel; ++data) {
      for (int context = 0; context < layout.context_parallel; ++context)
        maker.add(GroupRole::tensor, {0, data, pipeline, context});
      for (int tensor = 0; tensor < layout.tensor_parallel; ++tensor) {
        maker.add(GroupRole::context, {tensor, data, pipeline, 0});
        if (exchanges_heads_round_rings(layout))
          make_parts_of_context(layout, {tensor, data, pipeline, 0}, maker);
      }
    }
  }
}

void make_expert_groups(const Layout& layout, GroupMaker& maker) {
  const int tensor = layout.expert_tensor(), experts = layout.expert_parallel;
  for (int pipeline = 0; pipeline < layout.pipeline_parallel; ++pipeline) {
    const auto at = [&](int i) { return rank_of_stage(layout, pipeline, i); };
    for (int copy = 0; copy < layout.expert_replicas(); ++copy) {
      const int first = copy * tensor * experts;
      for (int t = 0; t < tensor; ++t)
        maker.add(GroupRole::expert, at(first + t));
      for (int e = 0; e < experts; ++e)
        maker.add(GroupRole::expert_tensor, at(first + e * tensor));
    }
    for (int first = 0; first < tensor * experts; ++first)
      maker.add(GroupRole::expert_data, at(first));
    const int inner = layout.expert_inner_ranks();
    if (inner == 0) continue;
    for (int first = 0; first < tensor * experts; ++first) {
      for (int copy = 0; copy < layout.expert_replicas(); copy += inner)
        maker.add(GroupRole::expert_shard, at(copy * tensor * experts + first));
      for (int place = 0; place < inner; ++place)
        maker.add(GroupRole::expert_replicate, at(place * tensor * experts + first));
    }
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
    maker.add(GroupRole::tied_embedding, first);
  for (int stage = 0; stage < stages; ++stage) {
    plan.peer_of[rank_of(layout, at(stage)).value] = {rank_of(layout, at(stage + 1)),
                                                      rank_of(layout, at(stage + stages - 1))};
  }
}

}  // namespace

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

std::vector<RankId> group_members(const Layout& layout, GroupRole role, const RankCoordinates& of) {
  switch (role) {
    case GroupRole::tensor:
      return line(layout, layout.tensor_parallel, [&](int i) {
        return RankCoordinates{i, of.data, of.pipeline, of.context};
      });
    case GroupRole::context:
      return line(layout, layout.context_parallel, [&](int i) {
        return RankCoordinates{of.tensor, of.data, of.pipeline, i};
      });
    case GroupRole::context_heads:
    case GroupRole::context_ring:
      return part_of_context(layout, role, of);
    case GroupRole::data:
    case GroupRole::shard:
    case GroupRole::replicate:
      return data_group(layout, role, of);
    case GroupRole::tied_embedding:
      return line(layout, 2, [&](int i) {
        return RankCoordinates{of.tensor, of.data, i * (layout.pipeline_parallel - 1), of.context};
      });
    // Megatron-LM, core/parallel_state.py, get_amax_reduction_group: "tp-cp-dp".
    case GroupRole::maxima:
      return line(layout, layout.tensor_parallel * layout.replicas(),
                  [&](int i) { return rank_of_stage(layout, of.pipeline, i); });
    case GroupRole::expert:
    case GroupRole::expert_tensor:
    case GroupRole::expert_data:
    case GroupRole::expert_shard:
    case GroupRole::expert_replicate:
      return expert_group(layout, role, of);
    case GroupRole::local:
      return local_group(layout, of);
    case GroupRole::world:
      break;
  }
  std::vector<RankId> all(layout.world_size() > 1 ? static_cast<std::size_t>(layout.world_size())
                                                  : 0);
  for (std::uint32_t rank = 0; rank < all.size(); ++rank)
    all[rank] = RankId{rank};
  return all;
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
  if (further.maxima)
    for (int pipeline = 0; pipeline < layout.pipeline_parallel; ++pipeline)
      maker.add(GroupRole::maxima, {0, 0, pipeline, 0});
  if (further.experts) make_expert_groups(layout, maker);
  if (layout.trains_apart()) make_local_groups(layout, maker);
  maker.add(GroupRole::world, {});
}

}  // namespace sim
