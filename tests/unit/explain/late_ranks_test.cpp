#include "sim/explain/tables/late_ranks.hpp"

#include <nlohmann/json.hpp>

#include "sim/explain/explanation.hpp"
#include "tests/catch.hpp"
#include "tests/unit/explain/run_maker.hpp"

namespace {

using namespace sim;
using namespace sim::test;

// Rank 0 waits from 100 to 300; rank 1 is in a kernel from 0 to 250, and idle until 300.
TracedRun uneven_run(bool one_clock) {
  RunMaker make{one_clock};
  const std::int32_t group = make.group("data parallel", {0, 1});
  make.rank(0).kernel("short", OpKind::gemm, 0, 100);
  make.collective(CollectiveKind::all_reduce, group, 1000, 100, 300);
  make.rank(1).kernel("long<int>", OpKind::gemm, 0, 250, 0);
  make.collective(CollectiveKind::all_reduce, group, 1000, 300, 100, 295);
  return make.run();
}

TEST_CASE("what a rank does while others wait for it") {
  for (const bool one_clock : {true, false}) {
    const Explanation e = explain(uneven_run(one_clock));
    REQUIRE(e.late.size() == 1);
    const LateRank& late = e.late[0];
    CHECK(late.rank == RankId{1});
    CHECK(late.seconds == Approx(200e-6));
    REQUIRE(late.meanwhile.size() == 2);
    CHECK(late.meanwhile[0].state == StepState::compute);
    CHECK(late.meanwhile[0].name == "long");
    CHECK(late.meanwhile[0].seconds == Approx(150e-6));
    CHECK(late.meanwhile[1].state == StepState::host);
    CHECK(late.meanwhile[1].name.empty());
    CHECK(late.meanwhile[1].seconds == Approx(50e-6));
    CHECK(meanwhile_text(late) == "75 % compute, most of it long");
    CHECK(explanation_table(e, false).find("75 % compute, most of it long") != std::string::npos);
    const auto json = nlohmann::json::parse(explanation_json(e));
    CHECK(json["late_ranks"][0]["meanwhile"][0]["state"] == "compute");
  }
}

TEST_CASE("instants in which several wait count once") {
  RunMaker make;
  const std::int32_t group = make.group("data parallel", {0, 1, 2});
  for (const std::uint32_t rank : {0U, 1U})
    make.rank(rank).collective(CollectiveKind::all_reduce, group, 1000, 50 * rank, 400 - 50 * rank);
  make.rank(2).kernel("long", OpKind::gemm, 0, 300);
  make.collective(CollectiveKind::all_reduce, group, 1000, 300, 100);
  const Explanation e = explain(make.run());
  REQUIRE(e.late.size() == 1);
  CHECK(e.late[0].seconds == Approx(550e-6));
  CHECK(e.late[0].ranks == 2);
  REQUIRE(e.late[0].meanwhile.size() == 1);
  CHECK(e.late[0].meanwhile[0].seconds == Approx(300e-6));
}

}  // namespace
