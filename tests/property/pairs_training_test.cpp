// Features meet, executed: of the scenarios in which values meet, those that the host engine runs
// train the model that one rank trains.
//   STEPCAST_PAIRS=2000 build/release/tests/property/test_pairs_training   more of them, by hand
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "real/engine/bound_program.hpp"
#include "real/engine/data/labelled_text.hpp"
#include "real/host/host_backend.hpp"
#include "tests/catch.hpp"
#include "tests/property/equivalence.hpp"
#include "tests/property/equivalence_cases.hpp"
#include "tests/property/pair_scenarios.hpp"

namespace real::test {
namespace {

// Relative, of losses and norms: equivalence_test.cpp.
constexpr double bound = 1e-5;

const std::string sizes =
    "layers: 4, hidden: 24, heads: 4, head_dim: 6, feed_forward: 40, vocabulary: 101, "
    "max_sequence: 16";

std::string model(const std::string& name, const std::string& more) {
  return "{name: " + name + ", source: none, transformer: {" + sizes + ", " + more + "}}";
}

// training_pairs() leaves out what changes the numbers themselves: compression, replicas that train
// apart, tokens that are dropped, other optimizers.
sim::test::PairOptions training_pairs() {
  sim::test::PairOptions options;
  options.gpus = 8;
  const std::string llama = "norm: rms, activation: swiglu, positions: rotary, biases: none";
  options.models = {
      model("gpt", "norm: layer, activation: gelu, positions: learned, biases: all"),
      model("llama", llama + ", kv_heads: 2, tied_head: true"),
      model("mixture", llama + ", experts: {count: 4, per_token: 2, feed_forward: 20}")};
  options.frameworks = {"name: megatron", "name: transformers", "name: torchtitan",
                        "name: deepspeed", "name: megatron\n  version: core-0.15"};
  options.fixed = {{"layout.sequence_length", "8"},
                   {"layout.compute_dtype", "fp32"},
                   {"layout.first_bucket", "4 KiB"},
                   {"layout.bucket", "16 KiB"}};
  options.left_out = {"layout.compression",
                      "layout.local_steps",
                      "layout.servers",
                      "layout.offload.delay",
                      "layout.packing",
                      "layout.packed_length",
                      "layout.moe.capacity",
                      "layout.moe.load",
                      "layout.expert_imbalance",
                      "layout.optimizer",
                      "layout.lora",
                      "layout.gradient_dtype",
                      "layout.reduce_dtype",
                      "layout.activation_dtype",
                      "layout.moment",
                      "layout.second_moment",
                      "layout.state_format",
                      "layout.master_format",
                      "layout.offload.fraction"};
  return options;
}

bool is_executed(const sim::Scenario& scenario) {
  const sim::Plan plan = sim::make_plan(scenario.model, scenario.layout);
  return engine_problems(plan, scenario.model, false).empty() &&
         host_problems(plan, scenario.model).empty();
}

double largest_relative(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    worst = std::max(worst, std::fabs(a[i] - b[i]) / std::fabs(b[i]));
  return worst;
}

TEST_CASE("scenarios in which values meet train the model that one rank trains", "[pairs]") {
  const char* asked = std::getenv("STEPCAST_PAIRS");
  const int count = asked == nullptr ? 60 : std::atoi(asked);
  sim::test::PairScenarios scenarios{3, training_pairs()};
  const auto text = equivalence_text();
  sim::Training training;
  training.steps = 2;
  training.learning_rate.peak = 1e-2;
  training.epsilon = 1e-3;
  int executed = 0;
  for (int i = 0; i < count; ++i) {
    const sim::test::PairScenario pair = scenarios.next();
    if (!is_executed(pair.scenario)) continue;
    ++executed;
    INFO(pair.yaml);
    const sim::Model& model = pair.scenario.model;
    const sim::Layout& layout = pair.scenario.layout;
    const auto samples = open_samples(text->path(), model, layout.sequence_length);
    const TrainedModel alone = train_on_host(model, one_rank_layout(layout), training, *samples);
    TrainedModel got;
    REQUIRE_NOTHROW(got = train_on_host(model, layout, training, *samples));
    CHECK(largest_relative(got.losses, alone.losses) <= bound);
    CHECK(largest_relative(got.norms, alone.norms) <= bound);
  }
  CHECK(executed > count / 4);
}

}  // namespace
}  // namespace real::test
