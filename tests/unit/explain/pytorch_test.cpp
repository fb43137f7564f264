// Traces that PyTorch wrote on two ranks of CPUs (validation/explain/pytorch/): what is known of
// the job is found in them.
#include <string>

#include "sim/explain/explanation.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"

namespace {

using namespace sim;
using namespace sim::test;

constexpr std::int64_t bytes_of_parameters = 470528 * 4;  // as train.py prints, in fp32

TracedRun shipped_run(const std::string& name) {
  const std::string folder = source_dir() + "/validation/explain/pytorch/" + name;
  return read_run({folder + "/rank0.json.gz", folder + "/rank1.json.gz"});
}

// Of a step, over all sizes.
double bytes_of_kind(const Explanation& e, const std::string& kind) {
  double bytes = 0;
  for (const CollectiveRow& row : e.collectives)
    if (row.kind == kind) bytes += row.count * static_cast<double>(row.bytes.count());
  return bytes;
}

void check_form(const TracedRun& run, const Explanation& e) {
  CHECK(run.on_host);
  CHECK(run.one_clock);
  CHECK(e.ranks.size() == 2);
  CHECK(e.world_size == 2);
  CHECK(e.by == StepsBy::marks);
  CHECK(e.arrivals_told);
  REQUIRE(e.steps.size() == 4);  // two of each rank
  for (const RankStep& step : e.steps)
    CHECK(step.parts.total() == step.window.time());
  // Forward, and gradients of input and weights: of two layers with four, and of the head.
  double products = 0;
  for (const KernelRow& row : e.kernels.products)
    if (row.product.batch == 1) products += row.count;
  CHECK(products == 3 * (2 * 4 + 1));
}

TEST_CASE("a DDP run of PyTorch: buckets are the gradients, and the rank that sleeps is named") {
  const TracedRun run = shipped_run("ddp-late");
  const Explanation e = explain(run);
  check_form(run, e);
  REQUIRE(e.collectives.size() == 2);  // buckets
  CHECK(bytes_of_kind(e, "all_reduce") == bytes_of_parameters);
  REQUIRE_FALSE(e.late.empty());
  CHECK(e.late[0].rank == RankId{1});
  CHECK(e.late[0].seconds > 0.05);  // it sleeps for 50 ms in each step
  REQUIRE_FALSE(e.late[0].meanwhile.empty());
  CHECK(e.late[0].meanwhile[0].state == StepState::host);
  CHECK(e.late[0].meanwhile[0].seconds > 0.045);
}

TEST_CASE("an FSDP run of PyTorch: weights are gathered for each layer, forward and backward") {
  const TracedRun run = shipped_run("fsdp");
  const Explanation e = explain(run);
  check_form(run, e);
  // The root's are kept between forward and backward.
  double layers = 0, root = 0;
  for (const CollectiveRow& row : e.collectives)
    if (row.kind == "all_gather")
      (row.count == 4 ? layers : root) += static_cast<double>(row.bytes.count());
  CHECK(2 * layers + root == bytes_of_parameters);
  CHECK(bytes_of_kind(e, "all_gather") == 4 * layers + root);
  CHECK(bytes_of_kind(e, "all_reduce") == bytes_of_parameters);  // gloo's reduce-scatter is one
}

}  // namespace
