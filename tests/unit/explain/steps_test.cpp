#include "sim/explain/steps.hpp"

#include "sim/base/input_error.hpp"
#include "sim/explain/explanation.hpp"
#include "tests/catch.hpp"
#include "tests/unit/explain/run_maker.hpp"

namespace {

using namespace sim;
using namespace sim::test;

TEST_CASE("marked steps are the marks where the device keeps up with the host") {
  RunMaker make;
  make.rank(0).step("ProfilerStep#3", 1000, 6000).step("ProfilerStep#4", 6000, 12000);
  make.kernel("a", OpKind::gemm, 1100, 900, 1040).kernel("a", OpKind::gemm, 6100, 900, 6040);
  const RunSteps steps = find_steps(make.run());
  REQUIRE(steps.by == StepsBy::marks);
  REQUIRE(steps.count() == 2);
  CHECK(steps.ranks[0].windows[0].begin == at_us(1000));
  CHECK(steps.ranks[0].windows[0].end == at_us(6000));
  CHECK(steps.ranks[0].windows[1].end == at_us(12000));
  CHECK(steps.ranks[0].step_of == std::vector<std::int32_t>{0, 1});
}

TEST_CASE("a host that runs ahead does not move kernels into another step") {
  RunMaker make;
  // The host issues both steps at once; the device works them off later.
  make.rank(0).step("ProfilerStep#0", 0, 100).step("ProfilerStep#1", 100, 200);
  make.kernel("a", OpKind::gemm, 50, 450, 10).kernel("b", OpKind::gemm, 510, 490, 110);
  const RunSteps steps = find_steps(make.run());
  REQUIRE(steps.count() == 2);
  CHECK(steps.ranks[0].windows[0].end == at_us(500));
  CHECK(steps.ranks[0].windows[1].begin == at_us(500));
  CHECK(steps.ranks[0].windows[1].end == at_us(1000));
  CHECK(steps.ranks[0].step_of == std::vector<std::int32_t>{0, 1});
}

TEST_CASE("steps that a rank lacks are left out and said") {
  RunMaker make;
  make.rank(0).step("ProfilerStep#0", 0, 100).step("ProfilerStep#1", 100, 200);
  make.kernel("a", OpKind::gemm, 10, 50).kernel("a", OpKind::gemm, 110, 50);
  make.rank(1).step("ProfilerStep#1", 100, 200).kernel("a", OpKind::gemm, 110, 50);
  const RunSteps steps = find_steps(make.run());
  REQUIRE(steps.count() == 1);
  CHECK(steps.ranks[0].windows[0].name == "ProfilerStep#1");
  CHECK(steps.ranks[0].step_of == std::vector<std::int32_t>{not_told, 0});
  CHECK(steps.notes.size() == 1);
}

TEST_CASE("marks without a length are no steps, and said") {
  RunMaker make;
  make.rank(0).step("ProfilerStep#0", 100, 100).step("ProfilerStep#1", 100, 200);
  make.kernel("a", OpKind::gemm, 110, 50);
  const RunSteps steps = find_steps(make.run());
  REQUIRE(steps.count() == 1);
  CHECK(steps.ranks[0].windows[0].name == "ProfilerStep#1");
  CHECK(steps.notes ==
        std::vector<std::string>{"1 of 2 marked steps have no length: they were left out"});

  RunMaker none;
  none.rank(0).step("ProfilerStep#0", 100, 100).kernel("a", OpKind::gemm, 110, 50);
  CHECK(find_steps(none.run()).by == StepsBy::whole);
}

TEST_CASE("a trace that takes no time is refused") {
  RunMaker make;
  make.rank(0).kernel("a", OpKind::gemm, 110, 0);
  CHECK_THROWS_AS(explain(make.run(), nullptr, nullptr), InputError);
}

TEST_CASE("without marks, steps are what recurs, and end behind the optimizer") {
  RunMaker make;
  make.rank(0);
  std::int64_t at = 0;
  for (int step = 0; step < 3; ++step) {
    for (int layer = 0; layer < 4; ++layer) {
      make.kernel("gemm", OpKind::gemm, at, 10).kernel("norm", OpKind::norm, at + 10, 5);
      at += 15;
    }
    make.kernel("loss", OpKind::cross_entropy, at, 5).kernel("adam", OpKind::optimizer, at + 5, 5);
    at += 20;
  }
  const RunSteps steps = find_steps(make.run());
  REQUIRE(steps.by == StepsBy::recurrence);
  REQUIRE(steps.count() == 3);
  CHECK(steps.ranks[0].windows[0].begin == at_us(0));
  CHECK(steps.ranks[0].windows[0].end == at_us(80));
  CHECK(steps.ranks[0].windows[1].end == at_us(160));
  CHECK(steps.ranks[0].windows[2].end == at_us(230));  // the last kernel
}

TEST_CASE("a trace in which nothing recurs is one step") {
  RunMaker make;
  make.rank(0).kernel("a", OpKind::gemm, 100, 50).kernel("b", OpKind::norm, 160, 40);
  const RunSteps steps = find_steps(make.run());
  REQUIRE(steps.by == StepsBy::whole);
  REQUIRE(steps.count() == 1);
  CHECK(steps.ranks[0].windows[0].begin == at_us(100));
  CHECK(steps.ranks[0].windows[0].end == at_us(200));
}

}  // namespace
