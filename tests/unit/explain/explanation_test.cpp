#include "sim/explain/explanation.hpp"

#include <nlohmann/json.hpp>

#include "sim/base/input_error.hpp"
#include "sim/explain/activity_class.hpp"
#include "tests/catch.hpp"
#include "tests/unit/explain/run_maker.hpp"

namespace {

using namespace sim;
using namespace sim::test;

// Two ranks, three steps of 1000 us and one of 3000 us before them.
TracedRun some_run() {
  RunMaker make;
  const std::int32_t group = make.group("data parallel", {0, 1});
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    make.rank(rank);
    for (int step = 0; step < 4; ++step) {
      const std::int64_t begin = step == 0 ? 0 : 2000 + step * 1000;
      const std::int64_t end = 3000 + step * 1000;
      make.step("ProfilerStep#" + std::to_string(step), begin, end);
      make.product(4096, 4096, 4096, end - 900, 500);
      make.collective(CollectiveKind::all_reduce, group, 1'000'000, end - 400 + 100 * rank,
                      300 - 100 * rank);
    }
  }
  return make.run();
}

TEST_CASE("the mean leaves out the first step") {
  const Explanation e = explain(some_run());
  CHECK(e.first_steps == 1);
  CHECK(e.first_factor == Approx(3));
  CHECK(e.variation.steps == 3);
  CHECK(e.mean.step == Approx(1000e-6));
  CHECK(e.mean[StepState::compute] == Approx(500e-6));
  CHECK(e.mean[StepState::transfer] == Approx(200e-6));
  CHECK(e.mean[StepState::peer] == Approx(50e-6));
  double sum = 0;
  for (const double part : e.mean.by_state)
    sum += part;
  CHECK(sum == Approx(e.mean.step));
}

TEST_CASE("the rank that others wait for is named") {
  const Explanation e = explain(some_run());
  REQUIRE(e.late.size() == 1);
  CHECK(e.late[0].rank == RankId{1});
  CHECK(e.late[0].seconds == Approx(100e-6));
  CHECK(e.late[0].ranks == 1);
}

TEST_CASE("the bus bandwidth of an all-reduce is as nccl-tests counts it") {
  const Explanation e = explain(some_run());
  REQUIRE(e.collectives.size() == 1);
  CHECK(e.collectives[0].median == std::chrono::microseconds{200});
  CHECK(e.collectives[0].bus.in_bytes_per_second() == Approx(5e9));
}

TEST_CASE("products have their rate and their share of the device's peak") {
  TracedRun run = some_run();
  run.device.name = "NVIDIA H100 80GB HBM3";
  const Explanation e = explain(run);
  REQUIRE(e.kernels.products.size() == 1);
  const double rate = 2.0 * 4096 * 4096 * 4096 / 500e-6;
  CHECK(e.kernels.products[0].flop_rate() == Approx(rate));
  REQUIRE(e.peak.in_flops_per_second() > 0);
  CHECK(e.kernels.products[0].of_peak == Approx(rate / e.peak.in_flops_per_second()));
}

TEST_CASE("a trace without kernels is refused") {
  RunMaker make;
  make.rank(0).host("aten::mm", HostSpan::What::op, 0, 10);
  CHECK_THROWS_AS(explain(make.run()), InputError);
}

TEST_CASE("every form of an explanation has its step and its parts") {
  const Explanation e = explain(some_run());
  const std::string table = explanation_table(e, false);
  CHECK(table.find("waiting for other ranks") != std::string::npos);
  CHECK(table.find("4096x4096x4096") != std::string::npos);
  CHECK(explanation_markdown(e).find("|compute|") != std::string::npos);
  CHECK(explanation_csv(e).find("state,compute,,1,0.0005,") != std::string::npos);
  const auto json = nlohmann::json::parse(explanation_json(e));
  std::int64_t sum = 0;
  for (const auto& [name, part] : json["steps"][0]["states"].items())
    sum += part.get<std::int64_t>();
  CHECK(sum == json["steps"][0]["time_ps"].get<std::int64_t>());
}

TEST_CASE("names of host spans") {
  CHECK(loads_data("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"));
  CHECK(loads_data("next"));
  CHECK_FALSE(loads_data("context_parallel"));
  CHECK(waits_for_device("cudaDeviceSynchronize"));
  CHECK(waits_for_device("aten::item"));
  CHECK_FALSE(waits_for_device("aten::items"));
  CHECK(kernel_words("void at::native::vectorized_elementwise_kernel<4, float>(int)") ==
        "at::native::vectorized_elementwise_kernel");
}

}  // namespace
