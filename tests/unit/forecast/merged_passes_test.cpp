// Exchanges of tokens beside another micro-batch: what they hide, and no more.
#include <string>
#include <vector>

#include "sim/forecast/forecast.hpp"
#include "tests/catch.hpp"

using namespace sim;

namespace {

// The step, and what of it no kernel hides of the exchanges, with links and SMs that nobody shares.
struct Step {
  double seconds = 0, exposed = 0;
};
Step step(bool pipelined, const std::string& dispatcher, std::vector<std::string> more = {}) {
  more.insert(more.end(), {"layout.expert_tensor_parallel=1", "layout.moe.dispatcher=" + dispatcher,
                           "layout.global_batch=128", "framework.sync_expert_counts=false"});
  if (!pipelined)
    more.insert(more.end(), {"layout.pipeline_parallel=1", "layout.virtual_stages=1"});
  Scenario scenario = load_scenario("scenarios/mixtral-8x7b-64-h100.yaml", more);
  scenario.options.interference = false;
  const Report report = forecast(scenario).report;
  return {to_seconds(report.step_time), to_seconds(report.breakdown.exposed_expert)};
}

}  // namespace

TEST_CASE("merged passes hide exchanges, and at most all of them", "[forecast]") {
  for (const bool pipelined : {false, true})
    for (const char* dispatcher : {"alltoall", "deepep", "hybridep"}) {
      CAPTURE(pipelined, dispatcher);
      const Step plain = step(pipelined, dispatcher);
      const Step merged = step(pipelined, dispatcher, {"layout.overlap.expert_exchange=true"});
      CHECK(merged.seconds < plain.seconds);
      CHECK(merged.exposed < plain.exposed);
      CHECK(plain.seconds - merged.seconds < plain.exposed);
    }
}

TEST_CASE("without pipelining the first forward and the last backward pass are alone",
          "[forecast]") {
  // Two micro-batches, so that one pair is merged: of four passes of exchanges, two are exposed.
  const Step plain = step(false, "deepep");
  const Step merged = step(false, "deepep", {"layout.overlap.expert_exchange=true"});
  CHECK(merged.exposed > 0.45 * plain.exposed);
}
