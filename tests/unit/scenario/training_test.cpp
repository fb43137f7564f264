// The `training` section: what it means, what is refused, and that it is written as it was read.
#include <filesystem>
#include <fstream>

#include "sim/base/input_error.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/scenario/write_scenario.hpp"
#include "tests/catch.hpp"
#include "tests/problems.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/temporary.hpp"

using namespace sim;

namespace {

using Lines = std::vector<std::string>;

Scenario load(const std::string& text, const Lines& set = {}) {
  const std::filesystem::path path = test::temporary_path("training.yaml");
  std::ofstream{path} << text;
  try {
    Scenario scenario = load_scenario(path.string(), set);
    std::filesystem::remove(path);
    return scenario;
  } catch (const InputError&) {
    std::filesystem::remove(path);
    throw;
  }
}

// A scenario of one rank; `learning_rate` is line 5.
std::string scenario_with(const std::string& learning_rate) {
  const std::string root = sim::test::source_dir();
  return "model: " + root + "/models/byte-llama.yaml\ncluster: {path: " + root +
         "/topologies/cpu-cores.yaml, gpus: 1}\nlayout: {sequence_length: 64, global_batch: 4, "
         "compute_dtype: fp32}\n" +
         "training:\n  learning_rate: " + learning_rate + "\n";
}

LearningRate rate_of(const std::string& text, const Lines& set = {}) {
  return load(scenario_with(text), set).training.learning_rate;
}

Lines problems(const std::string& text, const Lines& set = {}) {
  try {
    rate_of(text, set);
  } catch (const InputError& error) {
    return test::lines_of(error);
  }
  return {};
}

constexpr LearningRate cosine{.peak = 3e-4,
                              .initial = 1e-6,
                              .warmup_steps = 10,
                              .decay = RateDecay::cosine,
                              .minimum = 3e-5,
                              .decay_steps = 100};
const std::string cosine_text =
    "{peak: 3e-4, initial: 1e-6, warmup_steps: 10, decay: cosine, minimum: 3e-5, decay_steps: 100}";

}  // namespace

TEST_CASE("a learning rate is a number or a schedule, and --set goes on top of both",
          "[scenario][training]") {
  CHECK(rate_of("0.01") == LearningRate{.peak = 0.01});
  CHECK(rate_of(cosine_text) == cosine);
  CHECK(rate_of("{warmup_steps: 5}") == LearningRate{.warmup_steps = 5});
  LearningRate changed = cosine;
  changed.peak = 0.001;
  CHECK(rate_of(cosine_text, {"training.learning_rate=0.001"}) == changed);
  CHECK(rate_of(cosine_text, {"training.learning_rate.peak=0.001"}) == changed);
  CHECK(rate_of("0.01", {"training.learning_rate.warmup_steps=7"}) ==
        LearningRate{.peak = 0.01, .warmup_steps = 7});
  CHECK(rate_of("0.01", {"training.learning_rate.peak=0.02"}) == LearningRate{.peak = 0.02});
  CHECK(rate_of(cosine_text, {"training.learning_rate.decay=constant"}).at(1000) == 3e-4);
}

TEST_CASE("a learning rate that contradicts itself is refused", "[scenario][training]") {
  CHECK(problems("2") == Lines{"5:18: learning_rate is 2; allowed: 0 to 1"});
  CHECK(problems("{peak: 0.1, decay: cosine}") ==
        Lines{"5:37: a decay needs decay_steps, the step that has the minimum (counted from 0, "
              "those of the "
              "warm-up too); for a whole run, that is training.steps"});
  CHECK(problems("{warmup_steps: 10, decay: linear, decay_steps: 10}") ==
        Lines{"5:65: decay_steps counts from step 0: allowed is more than the 10 warmup_steps"});
  CHECK(problems("{peak: 0.1, warmup_steps: 1, initial: 0.2, minimum: 0.3, decay: linear, "
                 "decay_steps: 9}") ==
        Lines{"5:56: initial is 0.2, above the peak; allowed: 0 to 0.1",
              "5:70: minimum is 0.3, above the peak; allowed: 0 to 0.1"});
  CHECK(
      problems("{initial: 0, minimum: 0}") ==
      Lines{
          "5:28: initial is where a warm-up begins, and there is none; set warmup_steps, too",
          "5:40: minimum is of a decay, and the rate is constant; set decay to linear or cosine"});
  CHECK(problems("0.1", {"training.learning_rate.decay=cosine"}).size() == 1);
  CHECK(problems("{decay: polynomial, minimum: 1e-5}").size() == 1);
  CHECK(problems("{warmup: 10}").size() == 1);
  CHECK(problems("{warmup_steps: -1}").size() == 1);
}

TEST_CASE("a saved scenario has the learning rate that was read", "[scenario][training]") {
  for (const std::string& text :
       {std::string{"0.01"}, cosine_text, std::string{"{warmup_steps: 5}"},
        std::string{"{decay: linear, decay_steps: 20}"}}) {
    CAPTURE(text);
    const Scenario scenario = load(scenario_with(text));
    const std::string folder = std::filesystem::temp_directory_path().string();
    CHECK(load(scenario_yaml(scenario, folder, "")).training == scenario.training);
  }
}
