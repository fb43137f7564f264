#include "tests/support/check_plan.hpp"

#include <stdexcept>
#include <string>

#include "sim/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/support/check_operands.hpp"
#include "tests/unit/plan/models.hpp"
#include "tests/unit/plan/sketch.hpp"

using namespace sim;

namespace {

Plan two_stages() {
  return make_plan(test::gpt({}), test::layout_for(1, 2, 2, 2));
}

std::uint32_t find(const Program& program, OpKind kind) {
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    if (program.kind[i] == kind) return i;
  }
  FAIL("no such operator");
  return 0;
}

bool refused_because(const Plan& plan, const std::string& reason) {
  try {
    check_plan(plan);
  } catch (const std::logic_error& error) {
    CAPTURE(error.what());
    return std::string{error.what()}.find(reason) != std::string::npos;
  }
  return false;
}

}  // namespace

TEST_CASE("A plan whose send has no receive of its size is refused", "[plan]") {
  Plan plan = two_stages();
  plan.programs[0].transfers[0].bytes += Bytes{1};
  CHECK(refused_because(plan, "does not match"));
}

TEST_CASE("A plan in which a rank waits for ever is refused", "[plan]") {
  Plan plan = two_stages();
  // Stage 1 runs a kernel where it should receive: stage 0 never gets rid of its message.
  Program& program = plan.programs[1];
  const std::uint32_t recv = find(program, OpKind::recv);
  program.kind[recv] = OpKind::elementwise;
  program.work[recv] = 0;
  REQUIRE_THROWS_AS(check_plan(plan), std::logic_error);
}

TEST_CASE("A plan whose stages disagree on a collective is refused", "[plan]") {
  Plan plan = two_stages();
  for (Collective& collective : plan.programs[1].collectives) {
    if (collective.group == GroupRole::world) collective.bytes += Bytes{4};
  }
  CHECK(refused_because(plan, "does not match"));
}

TEST_CASE("A buffer used after it is freed is refused", "[plan]") {
  Plan plan = two_stages();
  Program& program = plan.programs[0];
  BufferId freed;
  bool found = false;
  for (BufferUse& use : program.buffer_use) {
    if (!found && use.access == Access::free) {
      freed = use.buffer;
      found = true;
    }
  }
  REQUIRE(found);
  program.buffer_use.back() = {freed, Access::read};
  CHECK(refused_because(plan, "not alive"));
}

TEST_CASE("A dependency on a later operator is refused", "[plan]") {
  Plan plan = two_stages();
  Program& program = plan.programs[0];
  REQUIRE_FALSE(program.dependency.empty());
  program.dependency[0] = OpId{static_cast<std::uint32_t>(program.size() - 1)};
  CHECK(refused_because(plan, "later operator"));
}

TEST_CASE("A kernel that does not wait for the tensor it reads is refused", "[plan]") {
  Plan plan = make_plan(test::transformer(1), test::layout_for(2, 1, 1, 1));
  REQUIRE_NOTHROW(check_plan(plan));
  // An edge from compute to a reduction is moved to the reduction before it.
  Program& program = plan.programs[0];
  std::uint32_t earlier = UINT32_MAX;
  bool moved = false;
  for (std::uint32_t i = 0; i < program.size() && !moved; ++i) {
    const bool reduces = program.stream[i] == Stream::tensor_comm;
    for (std::uint32_t d = program.first_dependency[i]; d < program.first_dependency[i + 1]; ++d) {
      if (reduces || earlier == UINT32_MAX || program.dependency[d].value <= earlier) continue;
      program.dependency[d] = OpId{earlier};
      moved = true;
    }
    if (reduces && earlier == UINT32_MAX) earlier = i;
  }
  REQUIRE(moved);
  CHECK(refused_because(plan, "without waiting for"));
}

TEST_CASE("A tensor overwritten in place while it is sent is refused", "[plan]") {
  const bool waits = GENERATE(true, false);
  test::Sketch sketch{{{Bytes{1000}, BufferCategory::activations, false}}};
  const BufferId tensor{0};
  sketch.add(OpKind::elementwise, Stream::compute, {}, {{tensor, Access::write, Role::output}});
  sketch.add(OpKind::send, Stream::forward_send, {OpId{0}}, {{tensor, Access::read, Role::input}});
  sketch.add(OpKind::elementwise, Stream::compute,
             waits ? std::vector{OpId{1}} : std::vector<OpId>{},
             {{tensor, Access::write, Role::output}});
  if (waits) {
    REQUIRE_NOTHROW(check_races(sketch.program));
  } else {
    REQUIRE_THROWS_WITH(check_races(sketch.program),
                        "plan check: stage 0, operator 2 (op) writes buffer 0 while another "
                        "operator reads it");
  }
}

TEST_CASE("An operator without an operand of its action is refused", "[plan]") {
  Plan plan = make_plan(test::transformer(0), test::layout_for(1, 1, 1, 1));
  Program& program = plan.programs[0];
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    if (program.action[i] != Action::weight_gradient) continue;
    for (std::uint32_t u = program.first_buffer_use[i]; u < program.first_buffer_use[i + 1]; ++u) {
      if (program.buffer_use[u].role == Role::input) program.buffer_use[u].role = Role::residual;
    }
  }
  CHECK(refused_because(plan, "lacks an operand"));
}
