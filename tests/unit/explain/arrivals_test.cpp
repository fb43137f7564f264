#include "sim/explain/arrivals.hpp"

#include "tests/catch.hpp"
#include "tests/unit/explain/run_maker.hpp"

namespace {

using namespace sim;
using namespace sim::test;

TEST_CASE("on one clock, the last begin of a call is the arrival of all") {
  RunMaker make;
  const std::int32_t group = make.group("data parallel", {0, 1});
  make.rank(0).collective(CollectiveKind::all_reduce, group, 100, 0, 50);
  make.rank(1).collective(CollectiveKind::all_reduce, group, 100, 30, 20);
  const TracedRun run = make.run();
  const Arrivals arrivals = find_arrivals(run, find_steps(run));
  CHECK(arrivals.matched == 2);
  CHECK(arrivals.ready[0][0] == at_us(30));
  CHECK(arrivals.last[0][0] == 1);
  CHECK(arrivals.ready[1][0] == at_us(30));
  CHECK(arrivals.last[1][0] == not_told);
  CHECK(arrivals.waited[1][0] == std::chrono::microseconds{30});
  CHECK(arrivals.waited[0][0] == Duration{});
}

TEST_CASE("without a clock, the shortest kernel of a call is its transfer") {
  RunMaker make{false};
  const std::int32_t group = make.group("data parallel", {0, 1});
  make.rank(0).collective(CollectiveKind::all_reduce, group, 100, 0, 50);
  make.rank(1).collective(CollectiveKind::all_reduce, group, 100, 7, 20);
  const TracedRun run = make.run();
  const Arrivals arrivals = find_arrivals(run, find_steps(run));
  CHECK(arrivals.ready[0][0] == at_us(30));
  CHECK(arrivals.last[0][0] == 1);
  CHECK(arrivals.ready[1][0] == at_us(7));
  CHECK(arrivals.waited[1][0] == std::chrono::microseconds{30});
}

TEST_CASE("calls whose number differs among ranks are not matched") {
  RunMaker make;
  const std::int32_t group = make.group("", {0, 1});
  make.rank(0).collective(CollectiveKind::all_reduce, group, 100, 0, 50);
  make.rank(1).collective(CollectiveKind::all_reduce, group, 100, 30, 20);
  make.collective(CollectiveKind::all_reduce, group, 100, 60, 20);
  const TracedRun run = make.run();
  const Arrivals arrivals = find_arrivals(run, find_steps(run));
  CHECK(arrivals.calls == 3);
  CHECK(arrivals.matched == 0);
  CHECK(arrivals.ready[0][0] == at_us(0));
}

TEST_CASE("groups that go by one name, without their members, tell no arrival") {
  RunMaker make;
  const std::int32_t group = make.group("tensor", {});
  for (std::uint32_t rank = 0; rank < 4; ++rank)
    make.rank(rank).collective(CollectiveKind::all_reduce, group, 100, 10 * rank, 50);
  TracedRun run = make.run();
  run.groups[0].size = 2;
  CHECK(find_arrivals(run, find_steps(run)).matched == 0);
  run.groups[0].size = 4;
  CHECK(find_arrivals(run, find_steps(run)).matched == 4);
}

TEST_CASE("a group of which one rank was traced tells no arrival") {
  RunMaker make;
  const std::int32_t group = make.group("", {0, 8});
  make.rank(0).collective(CollectiveKind::all_reduce, group, 100, 0, 50);
  make.rank(1).kernel("a", OpKind::gemm, 0, 50);
  const TracedRun run = make.run();
  CHECK(find_arrivals(run, find_steps(run)).matched == 0);
}

}  // namespace
