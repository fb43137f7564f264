#include "sim/plan/whole_groups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "sim/base/rounding.hpp"
#include "sim/plan/grid.hpp"

namespace sim {
namespace {

constexpr std::int64_t beyond = 1LL << 40;  // more ranks than any machine has

// Ranks from one coordinate of the dimension to the next.
std::int64_t stride_of(const Layout& layout, Dimension dimension) {
  std::int64_t stride = 1;
  for (const Dimension faster : layout.placement) {
    if (faster == dimension) break;
    stride = std::min(beyond, stride * size_of(layout, faster));
  }
  return stride;
}

// The ranks of a stage lie in a row, tensor ranks next to each other, then those of one sequence.
bool stages_in_a_row(const Layout& layout) {
  std::int64_t stride = 1;
  for (const Dimension dimension : {Dimension::tensor, Dimension::context, Dimension::data}) {
    const std::int64_t size = size_of(layout, dimension);
    if (size > 1 && stride_of(layout, dimension) != stride) return false;
    stride = std::min(beyond, stride * size);
  }
  return true;
}

// The block of groups of `ranks` ranks, `step` apart among those of a stage (rank_of_stage): of the
// slowest dimension that they vary, so many coordinates. Where these do not divide the dimension,
// all of them.
std::int64_t block_of(const Layout& layout, std::int64_t ranks, std::int64_t step) {
  std::int64_t extent = std::min(beyond, ranks * step);
  if (stages_in_a_row(layout)) return extent;
  std::int64_t block = 1;
  for (const Dimension dimension : {Dimension::tensor, Dimension::context, Dimension::data}) {
    const std::int64_t size = size_of(layout, dimension);
    const std::int64_t within = extent < size && size % extent == 0 ? extent : size;
    const bool varies = within > 1 && step < size;
    if (varies) block = std::max(block, stride_of(layout, dimension) * within);
    extent = divide_up(extent, within);
    step = divide_up(step, size);
  }
  return std::min(block, beyond);
}

bool is_of_data(GroupRole role) {
  return role == GroupRole::data || role == GroupRole::shard;
}

std::int64_t ranks_of(const Layout& layout) {
  std::int64_t ranks = 1;
  for (const Dimension dimension : layout.placement)
    ranks = std::min(beyond, ranks * size_of(layout, dimension));
  return ranks;
}

// As many GPUs per node as keep whole what can be kept.
int most_whole(const std::vector<GroupBlock>& blocks, const NodeRoom& room, std::int64_t world) {
  const auto used = [&](std::int64_t unit) { return room.gpus / unit * unit; };
  const std::int64_t tray = std::max(1, room.gpus / std::max(1, room.trays));
  std::int64_t unit = 1;  // divides the number
  for (const GroupBlock& one : blocks) {
    if (one.block > room.gpus) continue;
    std::int64_t next = std::lcm(unit, one.block);
    if (is_of_data(one.role)) next = std::lcm(next, tray);
    if (next <= room.gpus && used(next) * room.nodes >= world) unit = next;
  }
  return static_cast<int>(used(unit));
}

// The layout with its ranks in the order that keeps most groups together.
Layout with_stages_in_a_row(Layout layout) {
  layout.placement = {Dimension::tensor, Dimension::context, Dimension::data, Dimension::pipeline};
  return layout;
}

bool is_whole(const Layout& layout, GroupRole role, int gpus_per_node) {
  const std::vector<GroupBlock> blocks = group_blocks(layout);
  const auto found = std::ranges::find(blocks, role, &GroupBlock::role);
  return found == blocks.end() || gpus_per_node % found->block == 0;
}

// The placement and GPUs per node with which a group that crosses nodes would not.
std::string remedy_of(const Layout& layout, const NodeRoom& room, int used,
                      const GroupBlock& group) {
  const NodeRoom any{room.gpus, room.trays, 1 << 30};
  const std::int64_t world = ranks_of(layout);
  const auto per_node = [&](std::int64_t gpus) {
    const std::int64_t nodes = divide_up(world, gpus);
    return fmt::format("cluster.gpus_per_node: {}{}", gpus,
                       nodes > room.nodes ? fmt::format(" and cluster.nodes: {}", nodes) : "");
  };
  const std::int64_t own = most_whole(group_blocks(layout), any, world);
  if (is_whole(layout, group.role, static_cast<int>(own))) return per_node(own);
  std::string order;
  if (!stages_in_a_row(layout)) {
    order = "layout.placement: [tp, cp, dp, pp]";
    const Layout moved = with_stages_in_a_row(layout);
    const std::int64_t best = most_whole(group_blocks(moved), any, world);
    if (is_whole(moved, group.role, static_cast<int>(best)))
      return best == used ? order : fmt::format("{} and {}", order, per_node(best));
    order += " and ";
  }
  // At the cost of what it excludes: groups that come first, or trays that stay whole.
  return order + per_node(room.gpus / group.block * group.block);
}

}  // namespace

std::vector<GroupBlock> group_blocks(const Layout& layout) {
  std::vector<GroupBlock> blocks;
  const auto add = [&](GroupRole role, std::int64_t ranks, std::int64_t step) {
    if (ranks > 1) blocks.push_back({role, ranks, block_of(layout, ranks, step)});
  };
  const std::int64_t tensor = layout.tensor_parallel, context = layout.context_parallel;
  const std::int64_t replicas = context * layout.data_parallel;
  add(GroupRole::tensor, tensor, 1);
  if (layout.expert_tensor_parallel > 0 || layout.expert_parallel > 1)
    add(GroupRole::expert_tensor, layout.expert_tensor(), 1);
  if (layout.context_exchange == ContextExchange::all_to_all_ring)
    add(GroupRole::context_heads, layout.head_ranks(), tensor);
  add(GroupRole::context, context, tensor);
  add(GroupRole::expert, layout.expert_parallel, layout.expert_tensor());
  const bool hybrid =
      layout.zero_stage > 0 && layout.shard_group > 0 && layout.shard_group < replicas;
  if (hybrid)
    add(GroupRole::shard, layout.shard_group, tensor);
  else
    add(GroupRole::data, replicas, tensor);
  return blocks;
}

int whole_gpus_per_node(const Layout& layout, const NodeRoom& room, int world) {
  if (room.nodes == 1 || (world > 0 && world <= room.gpus)) return room.gpus;
  std::vector<GroupBlock> blocks = group_blocks(layout);
  if (world == 0)
    std::erase_if(blocks, [](const GroupBlock& one) { return one.role == GroupRole::data; });
  return most_whole(blocks, room, world);
}

int even_gpus_per_node(const Layout& layout, const NodeRoom& room, int gpus_per_node) {
  const std::int64_t world = ranks_of(layout);
  if (room.trays == 1 || world <= gpus_per_node) return gpus_per_node;
  const std::int64_t nodes = divide_up(world, gpus_per_node);
  const std::int64_t share = world / nodes;
  if (world % nodes != 0 || share % (room.gpus / room.trays) != 0) return gpus_per_node;
  for (const GroupBlock& one : group_blocks(layout))
    if (gpus_per_node % one.block == 0 && share % one.block != 0) return gpus_per_node;
  return static_cast<int>(share);
}

bool keeps_groups_whole(const Layout& layout, const NodeRoom& room, int gpus_per_node) {
  return std::ranges::all_of(group_blocks(layout), [&](const GroupBlock& one) {
    return one.block > room.gpus || gpus_per_node % one.block == 0;
  });
}

std::vector<CrossingGroups> crossing_groups(const Plan& plan, const NodeRoom& room,
                                            int gpus_per_node) {
  std::vector<CrossingGroups> found;
  for (const GroupBlock& block : group_blocks(with_stages_in_a_row(plan.layout))) {
    if (block.block > room.gpus) continue;
    CrossingGroups one{.role = block.role, .ranks = static_cast<int>(block.ranks), .remedy = {}};
    for (const Group& group : plan.groups) {
      if (group.role != block.role) continue;
      std::set<std::uint32_t> nodes;
      for (const RankId rank : group.ranks)
        nodes.insert(rank.value / static_cast<std::uint32_t>(gpus_per_node));
      ++one.groups;
      one.crossing += nodes.size() > 1 ? 1 : 0;
      one.nodes = std::max(one.nodes, static_cast<int>(nodes.size()));
    }
    if (one.crossing == 0) continue;
    one.remedy = remedy_of(plan.layout, room, gpus_per_node, block);
    found.push_back(std::move(one));
  }
  return found;
}

std::string describe(const CrossingGroups& groups, const NodeRoom& room) {
  return fmt::format("{} of {} {} groups ({} ranks) cross nodes of {} GPUs; set {}",
                     groups.crossing, groups.groups, word(groups.role), groups.ranks, room.gpus,
                     groups.remedy);
}

}  // namespace sim
