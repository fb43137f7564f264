// The lower bound on what kernels lose to a collective that must run beside them.
#include "sim/search/costs/overlaps.hpp"

#include "sim/search/search.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/unit/search/small_search.hpp"

using namespace sim;
using test::small_search;

namespace {

const DeviceShares hundred{.device_sm = 100 * 1024};
constexpr std::int64_t tenth = 10 * 1024;  // of its SMs
constexpr std::int64_t whole = 100 * 1024;

}  // namespace

// A kernel on all SMs runs at 90 of 100 of its speed beside a collective that holds 10: in the 500
// ps of the collective it gets 450 ps of work done and loses 50. (One less: the engine rounds.)
TEST_CASE("a kernel loses the share that the collective holds, as long as it lasts", "[search]") {
  CHECK(least_loss({{1000, whole}}, 500, tenth, hundred) == 49);
}

// The 90 ps of work last 100 ps beside it, then the kernel is over.
TEST_CASE("a kernel loses nothing after its end", "[search]") {
  CHECK(least_loss({{90, whole}}, 500, tenth, hundred) == 9);
}

// The first kernel needs what is left and loses nothing; 200 ps of the collective are beside it,
// 300 beside the second.
TEST_CASE("the collective runs beside those first that lose least", "[search]") {
  CHECK(least_loss({{1000, whole}, {200, 90 * 1024}}, 500, tenth, hundred) == 29);
  CHECK(least_loss({{1000, whole}, {500, 90 * 1024}}, 500, tenth, hundred) == 0);
}

// It ends as much later as it ran beside the collective, or runs twice as long; other communication
// may run beside its end.
TEST_CASE("a persistent kernel loses half of what runs beside it", "[search]") {
  CHECK(least_loss({{1000, whole, true}}, 500, tenth, hundred) == 249);
  CHECK(least_loss({{100, whole, true}}, 500, tenth, hundred) == 99);
  CHECK(least_loss({{1000, 90 * 1024, true}}, 500, tenth, hundred) == 0);
}

TEST_CASE("a device that communication takes as a whole stands still", "[search]") {
  CHECK(least_loss({{1000, whole}}, 500, whole, {.device_sm = whole, .least_left = 0}) == 499);
  // One SM of a hundred is left: 10 ps of work in 1,000 ps.
  CHECK(least_loss({{1000, whole}}, 1000, whole, hundred) == 989);
}

// With sequence parallelism the backward pass gathers inputs beside one product and reduces the
// gradient beside another.
TEST_CASE("blocks that overlap collectives with products have windows", "[search]") {
  const SearchSpecification asked = small_search(
      "tensor_parallel: 4, pipeline_parallel: 1, micro_batch: 4, zero_stage: 0, "
      "sequence_parallel: true, recompute: none");
  const Candidates listed = list_candidates(asked);
  const Plan plan = make_plan(asked.workload.model, layout_of(asked, listed, 0));
  const Program& program = plan.programs.front();
  OverlapCosts costs{[](std::uint32_t) {
                       return LeastKernel{1000, whole};
                     },
                     [](std::uint32_t) {
                       return LeastCollective{600, 500, tenth};
                     },
                     hundred};
  const auto size = static_cast<std::uint32_t>(program.size());
  const std::vector<ForcedOverlap> found = forced_overlaps(program, 0, size, costs);
  REQUIRE(!found.empty());
  std::uint32_t end = 0;
  for (const ForcedOverlap& one : found) {
    CHECK(one.after >= end);  // windows do not overlap
    CHECK(one.before > one.after + 1);
    CHECK(one.loss > 0);
    CHECK(one.kernels > 0);
    end = one.before;
  }
}

// Where collectives run beside products in every layer, the bound is close because of them: without
// what the products lose it is 1 % below the step.
TEST_CASE("the bound of a large model with sequence parallelism is close", "[search]") {
  const std::string path =
      sim::test::source_dir() + "/scenarios/search/turing-nlg-530b-1024-a100.yaml";
  const SearchSpecification asked = load_search(ScenarioSources{
      path,
      {"search.tensor_parallel=8", "search.pipeline_parallel=8", "search.virtual_stages=7",
       "search.micro_batch=1", "search.zero_stage=1", "search.shard_group=0",
       "search.recompute=none", "search.sequence_parallel=true", "search.placement=tp-cp-dp-pp"}});
  const Candidates listed = list_candidates(asked);
  REQUIRE(listed.all.size() == 1);
  const Duration exact = evaluate(asked, listed, 0).step_time;
  const Duration bound = Bounds{asked, listed}.fine(0).step_time;
  CHECK(bound <= exact);
  CHECK(to_seconds(bound) >= 0.995 * to_seconds(exact));
}

// Gathers and reductions of FSDP run beside persistent products all the time.
TEST_CASE("bounds of sharded parameters on Hopper hold, and are close", "[search]") {
  const std::string path = sim::test::source_dir() + "/validation/searches/llama-70b-512-h100.yaml";
  const SearchSpecification asked = load_search(ScenarioSources{
      path,
      {"search.pipeline_parallel=[1,4]", "search.zero_stage=[1,2,3]", "search.micro_batch=[1,2]",
       "search.recompute=full", "search.recompute_every=1", "search.shard_group=[0,32]",
       "search.placement=tp-cp-dp-pp"}});
  const Candidates listed = list_candidates(asked);
  const Bounds bounds{asked, listed};
  int checked = 0;
  for (std::uint32_t i = 0; i < listed.all.size(); ++i) {
    const Layout layout = layout_of(asked, listed, i);
    const Evaluation exact = evaluate(asked, listed, i);
    if (!exact.fits) continue;
    CAPTURE(describe(layout));
    const Duration bound = bounds.fine(i).step_time;
    CHECK(bound <= exact.step_time);
    const bool one_stage = layout.pipeline_parallel == 1 && layout.micro_batch == 1;
    if (one_stage && layout.tensor_parallel == 4 && layout.zero_stage == 3)
      CHECK(to_seconds(bound) >= 0.8 * to_seconds(exact.step_time));
    ++checked;
  }
  CHECK(checked > 10);
}
