// GEMMs cut into parts by user buffers: what the host needs to issue them.
#include <string>
#include <vector>

#include "sim/forecast/forecast.hpp"
#include "tests/catch.hpp"

using namespace sim;

namespace {

// One micro-batch over eight tensor ranks: short kernels, and no bubble to hide in. Issued by a
// module each, the parts would make these steps 1.65 and 1.45 times as long.
double step(std::vector<std::string> more) {
  more.insert(more.end(), {"layout.pipeline_parallel=1", "layout.virtual_stages=1",
                           "layout.data_parallel=1", "cluster.nodes=1", "cluster.gpus=8",
                           "layout.global_batch=1", "layout.overlap.tensor_products=true"});
  return to_seconds(
      forecast(load_scenario("scenarios/llama-3.1-70b-512-h100.yaml", more)).report.step_time);
}

}  // namespace

TEST_CASE("the host keeps up with the parts of cut GEMMs", "[forecast]") {
  using Options = std::vector<std::string>;
  for (const Options& job : {Options{"layout.sequence_length=2048"},
                             Options{"layout.sequence_length=4096", "layout.compute_dtype=fp8"}}) {
    Options free = job;
    free.emplace_back("framework.host_calls=0");
    const double without = step(free);
    const double with = step(job);
    CAPTURE(with, without);
    CHECK(with < 1.07 * without);
    CHECK(with >= without);
  }
}
