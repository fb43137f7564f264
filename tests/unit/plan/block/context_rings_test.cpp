// Attention over context-parallel ranks by all-to-all among neighbours and rings of their groups.
#include <algorithm>

#include "sim/plan/grid.hpp"
#include "tests/catch.hpp"
#include "tests/support/check_plan.hpp"
#include "tests/unit/plan/models.hpp"

using namespace sim;

namespace {

Layout rings_layout(int ranks, int heads) {
  Layout layout = test::context_layout(ranks, ContextExchange::all_to_all_ring);
  layout.context_heads = heads;
  return layout;
}

Model small() {
  return test::gpt({.layers = 2, .hidden = 256, .heads = 8});
}

struct Sent {
  std::int64_t heads = 0, rings = 0;  // bytes of one pass of a layer
  int shifts = 0;
};

Sent sent(const Program& program, Pass pass) {
  Sent made;
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    if (program.label[i].layer != 1 || program.pass[i] != pass ||
        program.kind[i] != OpKind::collective)
      continue;
    const Collective& call = program.collectives[program.work[i]];
    if (call.group == GroupRole::context_heads) made.heads += call.bytes.count();
    if (call.group != GroupRole::context_ring) continue;
    CHECK(call.kind == CollectiveKind::ring_shift);
    made.rings += call.bytes.count();
    ++made.shifts;
  }
  return made;
}

double attention_flops(const Plan& plan) {
  double sum = 0;
  const Program& program = plan.programs[0];
  for (std::uint32_t i = 0; i < program.size(); ++i)
    if (program.kind[i] == OpKind::attention) sum += program.kernels[program.work[i]].flops.count();
  return sum;
}

}  // namespace

TEST_CASE("neighbours exchange heads, and ranks with the same heads make a ring",
          "[plan][context]") {
  const Layout layout = rings_layout(8, 2);
  const auto members = [&](GroupRole role, int context) {
    std::vector<int> found;
    for (const RankId rank : group_members(layout, role, {0, 0, 0, context}))
      found.push_back(coordinates_of(layout, rank).context);
    return found;
  };
  CHECK(members(GroupRole::context_heads, 5) == std::vector<int>{4, 5});
  CHECK(members(GroupRole::context_ring, 5) == std::vector<int>{1, 3, 5, 7});
}

TEST_CASE("heads and rings send what each sends alone, of their own sizes", "[plan][context]") {
  const int heads = GENERATE(2, 4);
  const Layout layout = rings_layout(8, heads);
  const Plan plan = make_plan(small(), layout);
  check_plan(plan);
  const std::int64_t tokens = layout.tokens_held(), width = 256, element = 2;
  // Queries, keys, values and the output; keys and values from each of the other groups.
  const Sent forward = sent(plan.programs[0], Pass::forward);
  const int groups = 8 / heads;
  CHECK(forward.heads == 4 * width * tokens * element);
  CHECK(forward.shifts == groups - 1);
  CHECK(forward.rings == (groups - 1) * 2 * width * tokens * element);
  // Back: the gradients of these; of slices, c - 1 hops of their own and of their gradients.
  const Sent backward = sent(plan.programs[0], Pass::backward);
  CHECK(backward.heads == forward.heads);
  CHECK(backward.rings == 2 * forward.rings);
  // All ranks together attend as one would, but for the causal mask's halves.
  const Plan ring = make_plan(small(), test::context_layout(8, ContextExchange::ring));
  CHECK(attention_flops(plan) == Approx(attention_flops(ring)));
}

TEST_CASE("sizes of rings are refused by their key", "[plan][problems]") {
  const auto problem = [](Layout layout) {
    for (const LayoutProblem& found : layout_problems(layout, small()))
      if (found.key.starts_with("context_")) return found.what;
    return std::string{};
  };
  CHECK(problem(rings_layout(8, 2)).empty());
  CHECK(problem(rings_layout(8, 3)) ==
        "context_heads is 3 with context_exchange all_to_all_ring and context_parallel 8; allowed: "
        "a divisor between them, or context_exchange all_to_all or ring");
  CHECK(problem(rings_layout(8, 8)) ==
        "context_heads is 8 with context_exchange all_to_all_ring and context_parallel 8; allowed: "
        "a divisor between them, or context_exchange all_to_all or ring");
  Layout other = test::context_layout(4, ContextExchange::ring);
  other.context_heads = 2;
  CHECK(problem(other) ==
        "context_heads is 2, but context_exchange is ring; allowed: 0, or context_exchange "
        "all_to_all_ring");
  CHECK(problem(rings_layout(32, 16)) ==
        "context_exchange is all_to_all_ring, but tensor_parallel x context_heads = 1 x 16 does "
        "not divide 8 heads and 8 key/value heads; allowed: context_heads 1, 2, 4, 8, or "
        "context_exchange ring, all_gather");
}
