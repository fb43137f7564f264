// A search as a job: the same candidates for who leads and who helps, and a key that tells jobs
// apart.
#include "sim/search/search_job.hpp"

#include "sim/base/input_error.hpp"
#include "sim/search/progress_text.hpp"
#include "tests/catch.hpp"

using namespace sim;

namespace {

Workload gpt2() {
  return {.model = "gpt2",
          .cluster = "dgx-h100",
          .gpus = 2,
          .global_batch = 4,
          .sequence_length = 128,
          .overrides = {"search.micro_batch=1", "search.zero_stage=0"}};
}

}  // namespace

TEST_CASE("who leads and who helps have the same candidates and key", "[search]") {
  SearchJob leader{"", gpt2(), {}};
  SearchJob helper{"", gpt2(), {}};
  const JobKey key = leader.load(true);
  CHECK(digest_of(key) == digest_of(helper.load(false)));
  CHECK(key.command == "search");
  CHECK(key.units == leader.search().candidates().all.size());
  CHECK(key.arguments == std::vector<std::string>{"--model", "gpt2", "--cluster", "dgx-h100",
                                                  "--gpus", "2", "--batch", "4", "--sequence",
                                                  "128", "--set", "search.micro_batch=1", "--set",
                                                  "search.zero_stage=0"});
  REQUIRE(key.units > 0);
  for (std::uint64_t unit = 0; unit < key.units; ++unit)
    CHECK(leader.evaluate(unit) == helper.evaluate(unit));
  CHECK(stopped_line(leader.search()) == "stopped before a layout was found");
}

TEST_CASE("a workload without a scenario names the option that is missing", "[search]") {
  Workload workload = gpt2();
  workload.gpus = 0;
  CHECK_THROWS_WITH(search_sources("", workload),
                    "--gpus: error: is needed without a scenario file: give --model, --cluster, "
                    "--gpus and --batch");
  const std::string scenario = "scenarios/search/llama-405b-16384-h100.yaml";
  workload.overrides = {};
  CHECK(search_sources(scenario, workload).path() == scenario);
}

TEST_CASE("the line of progress says what is decided and at most left", "[search]") {
  SearchProgress progress{
      .counts = {.legal = 12'000, .simulated = 21, .open = 2'000}, .seconds = 2, .best = {}};
  // 10,000 in 2 s are 5,000/s; 2,000 are left.
  CHECK(progress_line(progress) ==
        "10,000 of 12,000 layouts decided, 21 simulated, 5000/s, at most 0 s left, best none yet");
  progress.best = Evaluation{};
  progress.best->step_time = std::chrono::milliseconds{5634};
  CHECK(progress_line(progress).ends_with(", best 5.634 s"));
  CHECK(rate_line(progress.counts, 2) == "10,000 layouts in 2.0 s: 5000 layouts/s");
}
