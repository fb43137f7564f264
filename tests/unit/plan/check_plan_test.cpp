#include <stdexcept>
#include <string>

#include "sim/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/unit/plan/models.hpp"

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
