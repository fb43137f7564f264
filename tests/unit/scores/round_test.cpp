// Rounds of MLPerf Training: what was submitted, forecasts before logs, scores.
#include <filesystem>
#include <fstream>
#include <utility>

#include "sim/base/input_error.hpp"
#include "sim/scores/mlperf/round_predictions.hpp"
#include "tests/catch.hpp"
#include "tests/temporary.hpp"

namespace {

using namespace sim;
namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream{path} << text;
}

const std::string tuning =
    "export TP=1\nexport CP=1\nexport MBS=1\nexport MINIBS=1\nexport DGXNNODES=1\n"
    "export DGXNGPU=8\nexport CG_WEIGHT_CACHING=0\n";

std::string system_of(const char* accelerator) {
  return std::string{R"({"number_of_nodes": "1", "accelerators_per_node": "8", )"} +
         R"("accelerator_model_name": ")" + accelerator + "\"}";
}

std::string log_line(const char* key, const std::string& value, int ms,
                     const char* metadata = "{}") {
  return ":::MLLOG {\"time_ms\": " + std::to_string(ms) + ", \"key\": \"" + key +
         "\", \"value\": " + value + ", \"metadata\": " + metadata + "}\n";
}

// One submitter with a system of H200s, one of a GPU that is not shipped, and a log.
class Round {
 public:
  Round() : path_{test::temporary_path("round")} {
    fs::remove_all(path_);
    const fs::path us = path_ / "Us";
    write(us / "systems/one.json", system_of("NVIDIA H200-SXM5-141GB"));
    write(us / "systems/other.json", system_of("Some TPU"));
    write(us / "benchmarks/llama2_70b_lora/implementations/nemo/config_DGXH200_1x8x1.sh", tuning);
    write(us / "benchmarks/llama2_70b_lora/implementations/nemo/config_DGXB200_1x8x1.sh", tuning);
    write(us / "benchmarks/llama2_70b_lora/implementations/nemo/config_DGXH200_2x8x1.sh",
          tuning + "export DGXNNODES=2\n");
    write(us / "results/one/llama2_70b_lora/result_0.txt",
          log_line("global_batch_size", "8", 0) +
              log_line("tracked_stats", "{\"train_step_time\": 3.0}", 10));
    write(us / "results/one/resnet/result_0.txt", "");
    write(us / "results/other/llama2_70b_lora/result_0.txt", "");
  }
  ~Round() { fs::remove_all(path_); }
  Round(const Round&) = delete;
  Round& operator=(const Round&) = delete;

  std::string folder() const { return path_.string(); }
  fs::path benchmark() const { return path_ / "Us/benchmarks/llama2_70b_lora"; }

 private:
  fs::path path_;
};

TEST_CASE("a system's configuration is the one of its GPUs", "[scores]") {
  const Round round;
  const std::vector<RoundSubmission> found = submissions_of(round.folder(), {});
  REQUIRE(found.size() == 2);  // no language model is ResNet
  CHECK(found[0].name() == "Us/one/llama2_70b_lora");
  CHECK(found[0].refused.empty());
  CHECK(found[0].config ==
        "Us/benchmarks/llama2_70b_lora/implementations/nemo/config_DGXH200_1x8x1.sh");
  CHECK(found[0].cluster == "dgx-h200");
  REQUIRE(found[0].job);
  CHECK(found[0].job->layout.lora_rank == 16);
  CHECK(found[1].refused == "accelerator_model_name is 'Some TPU', of which no machine is shipped");
  CHECK_THROWS_AS(submissions_of(round.folder(), {"Nobody"}), InputError);
  CHECK_THROWS_AS(submissions_of(round.folder() + "/none", {}), InputError);
}

TEST_CASE("different configurations of one size are told apart by names, or refused", "[scores]") {
  const Round round;
  const auto first = [&] {
    std::vector<RoundSubmission> found = submissions_of(round.folder(), {"Us"});
    return std::move(found.front());
  };
  const fs::path folder = round.benchmark() / "implementations/nemo";
  write(folder / "config_DGXH200_1x8x1_fp8.sh", tuning);  // the same job
  CHECK(first().refused.empty());
  write(folder / "config_DGXH200_1x8x2.sh", tuning + "export MINIBS=2\n");
  CHECK(first().refused.find("2 different configurations fit") == 0);
  write(folder / "README-one.md", "source config_DGXH200_1x8x2.sh\n");
  CHECK(first().config.ends_with("config_DGXH200_1x8x2.sh"));
  CHECK(first().job->layout.global_batch == 16);
  write(folder / "config_DGXH200_1x8x2.sh", "source config_common.sh\n" + tuning);
  CHECK(first().refused.find("config_common.sh, which it sources, is not beside it") !=
        std::string::npos);
  write(folder / "../config_common.sh", "export MINIBS=4\n");  // a folder up
  CHECK(first().job->layout.global_batch == 8);                // and overwritten
}

TEST_CASE("a round is forecast, written, read and scored", "[scores]") {
  const Round round;
  RoundPredictions made = predict_round(round.folder(), submissions_of(round.folder(), {}));
  made.program = "stepcast test";
  REQUIRE(made.rows.size() == 2);
  REQUIRE(made.rows[0].step_s);
  CHECK(made.rows[0].low_s < *made.rows[0].step_s);
  CHECK(made.written.size() == std::string{"2026-01-01T00:00:00Z"}.size());
  const RoundPredictions read = read_predictions(predictions_json(made), "p.json");
  CHECK(predictions_json(read) == predictions_json(made));

  const RoundScore score = score_round(round.folder(), read);
  CHECK(score.scored == 1);
  CHECK(score.rows[0].run.step_s == 3.0);
  CHECK(score.rows[0].error() == *made.rows[0].step_s / 3.0 - 1);
  CHECK(score.rows[1].unscored.find("Some TPU") != std::string::npos);
  CHECK(round_table(score).find("2 submissions, 1 forecast, 1 scored") != std::string::npos);
  CHECK(round_csv(score).find("Us,one,llama2_70b_lora,") != std::string::npos);
  CHECK(round_markdown(score).find("| Us/one/llama2_70b_lora | 8 |") != std::string::npos);
  CHECK(round_json(score).find("\"measured_from\": \"step times\"") != std::string::npos);

  RoundPredictions other = read;
  other.rows[0].global_batch = 16;
  CHECK(score_round(round.folder(), other).rows[0].unscored ==
        "the logs have a batch of 8, the configuration one of 16");
  CHECK_THROWS_AS(read_predictions("{}", "p.json"), InputError);
  CHECK_THROWS_AS(read_predictions(R"({"program": "", "written": "", "round": "",
                                       "predictions": [{"submitter": 1}]})",
                                   "p.json"),
                  InputError);
}

TEST_CASE("logs say their steps in several ways, of which step times come first", "[scores]") {
  const std::string batch = log_line("global_batch_size", "8", 0);
  const auto run = [&](const std::string& text) {
    LogLines lines;
    lines.add("before\n" + batch + text + ":::MLLOG no json\n");
    return lines.run();
  };
  CHECK_FALSE(run("").step_s);
  // 8 samples in 2 s; the third line comes behind an evaluation.
  const std::string losses =
      log_line("train_loss", "1.5", 1000, R"({"samples_count": 8})") +
      log_line("tracked_stats", R"({"train_loss": 1.4})", 3000, R"({"samples_count": 16})") +
      log_line("eval_start", "null", 3000) +
      log_line("train_loss", "1.3", 9000, R"({"samples_count": 24})");
  CHECK(run(losses).step_s == 2.0);
  CHECK(run(losses).from == "lines of the loss");
  CHECK(run(losses).values == 1);
  const std::string speed = log_line("tracked_stats", R"({"throughput": 16})", 1);
  CHECK(run(losses + speed).step_s == 0.5);
  const std::string steps = log_line("tracked_stats", R"({"train_step_time": 0.4})", 1) +
                            log_line("tracked_stats", R"({"train_step_timing in s": 0.6})", 2);
  CHECK(run(losses + speed + steps).step_s == 0.5);
  CHECK(run(losses + speed + steps).from == "step times");
  CHECK(run(steps).values == 2);
}

}  // namespace
