// Memory of a plan, worked out once for many machines.
#include "sim/report/stage_memory.hpp"

#include <cmath>

#include "sim/memory/caching_allocator.hpp"
#include "sim/scenario/scenario.hpp"
#include "tests/catch.hpp"

using namespace sim;

namespace {

Plan replayed_plan() {
  const Scenario scenario = load_scenario("scenarios/llama-3.1-70b-asynctp-256-h100.yaml", {});
  Plan plan = make_plan(scenario.model, scenario.layout);
  REQUIRE(plan.caching_allocator);
  return plan;
}

}  // namespace

TEST_CASE("what a plan holds is the same, asked of one device or of many", "[stage_memory]") {
  const Plan plan = replayed_plan();
  PlanMemory memory{plan};
  const std::vector<Program>& programs = plan.memory_programs();
  int retried = 0;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    const Bytes most = cached_memory(programs[i], Bytes{INT64_MAX / 2}).reserved;
    for (const double share : {0.5, 0.9, 0.93, 0.95, 0.97, 0.98, 0.995, 1.0, 2.0}) {
      const Bytes room{std::llround(share * static_cast<double>(most.count()))};
      CAPTURE(i, share);
      const CachedMemory held = memory.held(i, room);
      const CachedMemory alone = cached_memory(programs[i], room);
      CHECK(held.reserved == alone.reserved);
      CHECK(held.allocated == alone.allocated);
      CHECK(held.fits == alone.fits);
      CHECK(held.retries == alone.retries);
      CHECK(held.kept == alone.kept);
      // Cached memory alone is never too much, and a program that does not fit needs more than
      // there is.
      CHECK(held.fits == (held.reserved <= room));
      CHECK(held.reserved <= most);
      retried += alone.retries > 0 ? 1 : 0;
    }
  }
  CHECK(retried > 0);  // some of these rooms do matter
}

TEST_CASE("a stage fits by retries where only what is cached is too much", "[stage_memory]") {
  StageMemory stage;
  stage.use.peak = Bytes{60};
  stage.fragments = Bytes{38};
  stage.reserved = Bytes{2};
  stage.total = stage.capacity = Bytes{100};
  CHECK(stage.fits());
  CHECK_FALSE(stage.fits_by_retries());
  CHECK(stage.needed() == Bytes{100});
  stage.kept = Bytes{70};
  CHECK(stage.fits_by_retries());
  CHECK(stage.needed() == Bytes{72});
  stage.capacity = Bytes{99};
  CHECK_FALSE(stage.fits_by_retries());
  CHECK(stage.needed() == Bytes{100});
}

TEST_CASE("stages are those of the machine that is asked about", "[stage_memory]") {
  const std::string path = "scenarios/llama-3.1-70b-512-h100.yaml";
  const Scenario scenario = load_scenario(path, {});
  const Plan plan = make_plan(scenario.model, scenario.layout);
  PlanMemory memory{plan};
  for (const char* size : {"40 GiB", "64 GiB", "70 GiB", "80 GiB"}) {
    const Scenario other = load_scenario(path, {std::string{"cluster.device.memory="} + size});
    const std::vector<StageMemory> kept = memory.stages(other.cluster);
    const std::vector<StageMemory> alone = stage_memory(plan, other.cluster);
    REQUIRE(kept.size() == alone.size());
    for (std::size_t stage = 0; stage < kept.size(); ++stage) {
      CAPTURE(size, stage);
      CHECK(kept[stage].total == alone[stage].total);
      CHECK(kept[stage].capacity == other.cluster.device().memory);
      CHECK(kept[stage].retries == alone[stage].retries);
    }
  }
}
