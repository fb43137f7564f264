#include "sim/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/support/check_plan.hpp"
#include "tests/unit/plan/models.hpp"

using namespace sim;
using test::Ranks;
using test::ranks_of;

TEST_CASE("The first dimension of the placement is the fastest", "[plan][grid]") {
  Layout layout = test::layout_for(2, 3, 4, 4);
  CHECK(rank_of(layout, {1, 2, 3}).value == 1 + 2 * 2 + 3 * 6);
  layout.placement = {Dimension::pipeline, Dimension::tensor, Dimension::data};
  CHECK(rank_of(layout, {1, 2, 3}).value == 3 + 1 * 4 + 2 * 8);
  for (std::uint32_t rank = 0; rank < 24; ++rank) {
    CHECK(rank_of(layout, coordinates_of(layout, RankId{rank})).value == rank);
  }
}

TEST_CASE("Groups are the lines of the grid", "[plan][grid]") {
  Layout layout = test::layout_for(2, 4, 2, 4);
  layout.zero_stage = 1;
  layout.shard_group = 2;
  const Plan plan = make_plan(test::gpt({.layers = 4, .tied = true}), layout);
  // Rank 3 = tensor 1, data 1, stage 0.
  CHECK(ranks_of(plan, 3, GroupRole::tensor) == Ranks{2, 3});
  CHECK(ranks_of(plan, 3, GroupRole::data) == Ranks{1, 3, 5, 7});
  CHECK(ranks_of(plan, 3, GroupRole::shard) == Ranks{1, 3});
  CHECK(ranks_of(plan, 5, GroupRole::shard) == Ranks{5, 7});
  CHECK(ranks_of(plan, 3, GroupRole::replicate) == Ranks{3, 7});
  CHECK(ranks_of(plan, 3, GroupRole::tied_embedding) == Ranks{3, 11});
  CHECK(ranks_of(plan, 3, GroupRole::world).size() == 16);
  CHECK(plan.peer_of[3][0].value == 11);
  CHECK(plan.peer_of[11][0].value == 3);  // interleaving goes round
  check_plan(plan);
}

TEST_CASE("Context ranks share sequences and reduce gradients with the data ranks",
          "[plan][grid]") {
  Layout layout = test::layout_for(2, 2, 2, 4);
  layout.context_parallel = 2;
  layout.zero_stage = 1;
  layout.shard_group = 2;
  const Plan plan = make_plan(test::gpt({.layers = 4, .tied = true}), layout);
  // Megatron-LM's order tp-cp-dp-pp: rank 3 = tensor 1, context 1, data 0, stage 0.
  CHECK(rank_of(layout, {1, 0, 0, 1}).value == 3);
  CHECK(coordinates_of(layout, RankId{3}).context == 1);
  CHECK(ranks_of(plan, 3, GroupRole::tensor) == Ranks{2, 3});
  CHECK(ranks_of(plan, 3, GroupRole::context) == Ranks{1, 3});
  CHECK(ranks_of(plan, 3, GroupRole::data) == Ranks{1, 3, 5, 7});
  CHECK(ranks_of(plan, 3, GroupRole::shard) == Ranks{1, 3});
  CHECK(ranks_of(plan, 3, GroupRole::replicate) == Ranks{3, 7});
  CHECK(ranks_of(plan, 3, GroupRole::tied_embedding) == Ranks{3, 11});
  CHECK(plan.peer_of[3][0].value == 11);
  CHECK(plan.world_size() == 16);
  check_plan(plan);
}

TEST_CASE("A group of one rank does not exist", "[plan][grid]") {
  const Plan plan = make_plan(test::gpt({}), test::layout_for(1, 1, 1, 1));
  CHECK(plan.groups.empty());
  CHECK(plan.peer_of[0][0].value == 0);
}
