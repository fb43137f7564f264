// How many GPUs of a node keep groups on one node, and which groups cross nodes.
#include "sim/plan/whole_groups.hpp"

#include <set>

#include "sim/plan/grid.hpp"
#include "tests/catch.hpp"

using namespace sim;

namespace {

constexpr NodeRoom racks{.gpus = 72, .trays = 18, .nodes = 64};
constexpr NodeRoom servers{.gpus = 8, .trays = 1, .nodes = 64};

struct Sizes {
  int tensor = 1, context = 1, data = 1, pipeline = 1, experts = 1, expert_tensor = 0;
  int zero = 1, shards = 0;
};

Layout layout_of(const Sizes& sizes) {
  Layout layout;
  layout.tensor_parallel = sizes.tensor;
  layout.context_parallel = sizes.context;
  layout.data_parallel = sizes.data;
  layout.pipeline_parallel = sizes.pipeline;
  layout.expert_parallel = sizes.experts;
  layout.expert_tensor_parallel = sizes.expert_tensor;
  layout.zero_stage = sizes.zero;
  layout.shard_group = sizes.shards;
  return layout;
}

int used(const Sizes& sizes, const NodeRoom& room) {
  const Layout layout = layout_of(sizes);
  return whole_gpus_per_node(layout, room, layout.world_size());
}

Plan plan_of(const Layout& layout) {
  Plan plan;
  plan.layout = layout;
  make_groups(plan, {.experts = layout.expert_parallel > 1});
  return plan;
}

// Whether a group of the role lies on several nodes, by looking at every group.
bool crosses(const Plan& plan, GroupRole role, int per_node) {
  for (const Group& group : plan.groups) {
    std::set<std::uint32_t> nodes;
    for (const RankId rank : group.ranks)
      nodes.insert(rank.value / static_cast<std::uint32_t>(per_node));
    if (group.role == role && nodes.size() > 1) return true;
  }
  return false;
}

using Order = std::vector<Dimension>;
constexpr auto tp = Dimension::tensor, cp = Dimension::context, dp = Dimension::data,
               pp = Dimension::pipeline;

}  // namespace

TEST_CASE("a rack is used as far as groups that fit stay whole", "[plan][nodes]") {
  CHECK(used({.data = 128, .experts = 32, .expert_tensor = 1}, racks) == 64);
  CHECK(used({.data = 256, .experts = 64, .expert_tensor = 1}, racks) == 64);
  CHECK(used({.data = 144, .experts = 72, .expert_tensor = 1}, racks) == 72);
  CHECK(used({.data = 144, .experts = 24, .expert_tensor = 1}, racks) == 72);
  CHECK(used({.tensor = 8, .data = 18}, racks) == 72);
  CHECK(used({.tensor = 16, .data = 9}, racks) == 64);
  CHECK(used({.tensor = 8, .context = 4, .data = 4}, racks) == 64);
  // Hybrid sharding over 48; a stage of 32 ranks with all its replicas.
  CHECK(used({.data = 144, .shards = 48}, racks) == 48);
  CHECK(used({.tensor = 2, .data = 16, .pipeline = 4}, racks) == 64);
  // Larger than a rack: nothing to keep. One rank each: nothing either.
  CHECK(used({.data = 144}, racks) == 72);
  CHECK(used({.pipeline = 80}, racks) == 72);
  // On one rack nothing can cross.
  CHECK(used({.data = 64, .experts = 32, .expert_tensor = 1}, racks) == 72);
}

TEST_CASE("a server is used whole wherever it always was", "[plan][nodes]") {
  CHECK(used({.tensor = 8, .data = 16}, servers) == 8);
  CHECK(used({.tensor = 2, .data = 16, .experts = 8}, servers) == 8);
  // Tensor groups of 3 would cross servers; gradients of 3 replicas may.
  CHECK(used({.tensor = 3, .data = 16}, servers) == 6);
  CHECK(used({.tensor = 2, .data = 3, .pipeline = 8}, servers) == 8);
}

TEST_CASE("no more nodes are needed than there are", "[plan][nodes]") {
  const NodeRoom few{.gpus = 72, .trays = 18, .nodes = 2};
  CHECK(used({.data = 128, .experts = 32, .expert_tensor = 1}, few) == 64);
  CHECK(used({.data = 144, .experts = 16, .expert_tensor = 1}, few) == 72);
  // Tensor groups stay whole (70), though experts cannot as well.
  CHECK(used({.tensor = 5, .data = 27, .experts = 9}, few) == 70);
  // All nodes: data groups follow from the answer.
  CHECK(whole_gpus_per_node(layout_of({.data = 144, .experts = 32, .expert_tensor = 1}), few, 0) ==
        64);
  CHECK(whole_gpus_per_node(layout_of({.data = 48, .pipeline = 3}), few, 0) == 72);
}

TEST_CASE("groups that exclude each other: the first wins", "[plan][nodes]") {
  // 16 and 54: no multiple of both is 72 or less.
  CHECK(used({.tensor = 16, .data = 27, .experts = 54, .expert_tensor = 1}, racks) == 64);
}

// Blocks are worked out from the layout; here every group is looked at.
TEST_CASE("a block is the smallest that holds groups whole", "[plan][nodes]") {
  const std::vector<Order> orders{
      {tp, cp, dp, pp}, {tp, cp, pp, dp}, {pp, dp, cp, tp}, {dp, tp, cp, pp}};
  const std::vector<Sizes> all{
      {.tensor = 2, .data = 6, .pipeline = 2},
      {.tensor = 2, .context = 3, .data = 4, .shards = 6},
      {.tensor = 4, .data = 4, .pipeline = 3, .experts = 8, .expert_tensor = 1},
      {.context = 2, .data = 6, .pipeline = 2, .experts = 4},
      {.tensor = 2, .data = 8, .experts = 4, .expert_tensor = 2}};
  for (const Sizes& sizes : all)
    for (const Order& order : orders) {
      Layout layout = layout_of(sizes);
      layout.placement = order;
      const Plan plan = plan_of(layout);
      for (const GroupBlock& one : group_blocks(layout))
        for (int per_node = 1; per_node < layout.world_size(); ++per_node) {
          CAPTURE(sizes.tensor, sizes.context, sizes.data, word(one.role), one.block, per_node);
          CHECK(crosses(plan, one.role, per_node) == (per_node % one.block != 0));
        }
    }
}

TEST_CASE("groups that cross nodes are told with what to set", "[plan][nodes]") {
  const auto told = [](const Layout& layout, const NodeRoom& room, int per_node) {
    std::vector<std::string> lines;
    for (const CrossingGroups& one : crossing_groups(plan_of(layout), room, per_node))
      lines.push_back(describe(one, room));
    return lines;
  };
  using Lines = std::vector<std::string>;
  NodeRoom two = racks;
  two.nodes = 2;
  Layout experts = layout_of({.data = 128, .experts = 32, .expert_tensor = 1});
  CHECK(told(experts, two, 64).empty());
  CHECK(told(experts, two, 72) ==
        Lines{"1 of 4 expert groups (32 ranks) cross nodes of 72 GPUs; set "
              "cluster.gpus_per_node: 64"});
  // Fewer GPUs of each need more nodes.
  CHECK(told(layout_of({.data = 144, .experts = 16, .expert_tensor = 1}), two, 72) ==
        Lines{"1 of 9 expert groups (16 ranks) cross nodes of 72 GPUs; set "
              "cluster.gpus_per_node: 64 and cluster.nodes: 3"});
  // Stages in between: no number of GPUs helps, the order does.
  experts.data_parallel = 64;
  experts.pipeline_parallel = 4;
  experts.placement = {tp, cp, pp, dp};
  const Lines lines = told(experts, racks, 72);
  REQUIRE(lines.size() == 2);  // the gradients' groups, too
  CHECK(lines[0] ==
        "8 of 8 expert groups (32 ranks) cross nodes of 72 GPUs; set "
        "layout.placement: [tp, cp, dp, pp] and cluster.gpus_per_node: 64");
  // A server: what nobody leaves GPUs idle for is told all the same.
  CHECK(told(layout_of({.tensor = 2, .data = 3, .pipeline = 4}), servers, 8) ==
        Lines{"4 of 8 data groups (3 ranks) cross nodes of 8 GPUs; set "
              "cluster.gpus_per_node: 6"});
}

TEST_CASE("racks can be filled alike", "[plan][nodes]") {
  const auto even = [](const Sizes& sizes, int per_node) {
    return even_gpus_per_node(layout_of(sizes), racks, per_node);
  };
  CHECK(even({.tensor = 8, .data = 32}, 72) == 64);  // 72 + 72 + 72 + 40
  CHECK(even({.tensor = 8, .data = 18}, 72) == 72);  // 72 + 72
  CHECK(even({.tensor = 9, .data = 16, .pipeline = 2}, 72) == 72);
  CHECK(even({.tensor = 9, .data = 24}, 72) == 72);
  CHECK(even({.tensor = 3, .data = 34}, 72) == 72);  // 51 are no whole trays
  CHECK(even({.tensor = 6, .data = 16}, 72) == 48);
  CHECK(even_gpus_per_node(layout_of({.tensor = 6, .data = 2}), servers, 8) == 8);
}
