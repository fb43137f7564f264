// A job is told from the trace of its step: records of forecasts whose layout is known.
#include "sim/infer/inferred_job.hpp"

#include <unistd.h>

#include <filesystem>

#include "sim/base/complete_file.hpp"
#include "sim/base/input_error.hpp"
#include "sim/forecast/record.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"

using namespace sim;
using namespace sim::test;

namespace {

TracedRun traced(const Scenario& scenario, const std::vector<RankId>& ranks) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("stepcast-infer-" + std::to_string(getpid()) + ".json");
  write_record(path.string(), simulated_record(scenario, ranks));
  TracedRun run = read_run({path.string()});
  std::filesystem::remove(path);
  return run;
}

InferredJob inferred(const Scenario& scenario, const std::vector<RankId>& ranks) {
  const TracedRun run = traced(scenario, ranks);
  return infer_job(run, find_steps(run), {.cluster = "dgx-h100"});
}

std::string value_of(const InferredJob& job, const std::string& key) {
  for (const InferredKey& entry : job.keys)
    if (entry.key == key) return entry.value;
  return {};
}

struct KnownJob {
  std::string scenario;
  std::vector<std::string> overrides;
};

const std::vector<KnownJob> known_jobs{
    {"llama-3.1-8b-fsdp-8-h100", {}},
    {"llama-3.1-8b-fsdp-8-h100", {"layout.recompute=none", "layout.sequence_length=4096"}},
    {"llama-3.1-70b-512-h100", {}},
    {"llama-3.1-70b-512-h100", {"layout.micro_batch=2", "layout.virtual_stages=1"}},
    {"llama-3.1-70b-512-h100", {"layout.tensor_parallel=4", "layout.data_parallel=32"}},
    {"gpt2-124m-8-h100", {}}};

}  // namespace

TEST_CASE("inferred job: the model, the grid and the batch of known jobs") {
  for (const KnownJob& known : known_jobs) {
    const Scenario scenario =
        load_scenario(source_dir() + "/scenarios/" + known.scenario + ".yaml", known.overrides);
    const Layout& layout = scenario.layout;
    // A rank of the last stage, which has the head, and the first one.
    const auto last = static_cast<std::uint32_t>(layout.world_size() - 1);
    const InferredJob job = inferred(scenario, {RankId{0}, RankId{last}});
    INFO(known.scenario << ": " << inferred_table(job));
    CHECK(scenario.model_path.find(value_of(job, "model")) != std::string::npos);
    CHECK(value_of(job, "layout.tensor_parallel") == std::to_string(layout.tensor_parallel));
    CHECK(value_of(job, "layout.pipeline_parallel") == std::to_string(layout.pipeline_parallel));
    CHECK(value_of(job, "layout.data_parallel") == std::to_string(layout.data_parallel));
    CHECK(value_of(job, "layout.global_batch") != "");
    const std::int64_t tokens = std::stoll(value_of(job, "layout.sequence_length")) *
                                std::stoll(value_of(job, "layout.global_batch"));
    CHECK(tokens == layout.sequence_length * layout.global_batch);
    CHECK(value_of(job, "layout.recompute") == (layout.recompute == Recompute::full ? "full" : ""));
    CHECK(value_of(job, "layout.zero_stage") == std::to_string(layout.zero_stage));
  }
}

TEST_CASE("inferred job: what is written is a scenario") {
  const Scenario scenario =
      load_scenario(source_dir() + "/scenarios/llama-3.1-8b-fsdp-8-h100.yaml", {});
  const std::string text = inferred_scenario(inferred(scenario, {RankId{0}}), "mine");
  const auto path = std::filesystem::temp_directory_path() /
                    ("stepcast-inferred-" + std::to_string(getpid()) + ".yaml");
  write_complete_file(path.string(), [&](std::ostream& out) { out << text; });
  const Scenario read = load_scenario(path.string());
  std::filesystem::remove(path);
  CHECK(read.layout.world_size() == 8);
  CHECK(read.layout.global_batch == scenario.layout.global_batch);
  CHECK(read.model.hidden == scenario.model.hidden);
}

TEST_CASE("inferred job: a trace without shapes says what to record") {
  TracedRun run;
  run.ranks.push_back({});
  DeviceActivity kernel;
  kernel.end = TimePoint{Duration{1'000'000}};
  run.ranks[0].device.push_back(kernel);
  run.names = {"gemm"};
  CHECK_THROWS_WITH(infer_job(run, find_steps(run)), contains_text("record_shapes=True"));
}

TEST_CASE("inferred job: fewer layers than the model's without messages are another model") {
  // A GPT of two layers with the widths of byte-gpt2, which has four.
  const std::string folder = source_dir() + "/validation/explain/pytorch/ddp-late/";
  const TracedRun run = read_run({folder + "rank0.json.gz", folder + "rank1.json.gz"});
  CHECK_THROWS_WITH(infer_job(run, find_steps(run), {.cluster = "dgx-h100"}),
                    contains_text("its widths are those of byte-gpt2, but not its layers"));
  CHECK_THROWS_WITH(infer_job(run, find_steps(run)), contains_text("the trace is of CPUs"));
}
