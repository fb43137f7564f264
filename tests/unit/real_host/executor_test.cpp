// Whole steps on the host: what every layout must have in common.
#include <algorithm>

#include "tests/unit/real_host/kernel_check.hpp"
#include "tests/unit/real_host/toy_run.hpp"

using namespace real_test;  // NOLINT(google-build-using-namespace)

namespace {

void check_equal(const ToyResult& a, const ToyResult& b) {
  REQUIRE(a.loss.size() == b.loss.size());
  for (std::size_t i = 0; i < a.loss.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(a.loss[i] / b.loss[i] - 1) < 1e-5);
    CHECK(std::abs(a.norm[i] / b.norm[i] - 1) < 1e-5);
  }
  REQUIRE(a.weights.size() == b.weights.size());
  for (const auto& [name, values] : b.weights) {
    CAPTURE(name);
    CHECK(relative_error(a.weights.at(name), exact(values)) < 1e-5);
  }
}

// A Llama-like, a GPT-like, and one with everything unusual.
sim::TransformerShape family(int index) {
  sim::TransformerShape shape = toy_shape();
  if (index == 0) return shape;
  shape.norm = sim::NormKind::rms;
  shape.activation = sim::Activation::swiglu;
  shape.positions = sim::Positions::rotary;
  shape.kv_heads = 2;
  shape.max_sequence = 0;
  shape.qkv_bias = shape.projection_bias = shape.mlp_bias = false;
  if (index == 2) {
    shape.qk_norm = true;
    shape.tied_head = true;
    shape.norm = sim::NormKind::layer;
    shape.activation = sim::Activation::relu;
    shape.mlp_bias = true;
  }
  return shape;
}

}  // namespace

TEST_CASE("the loss falls when a rank trains alone", "[real_host]") {
  const int index = GENERATE(0, 1, 2);
  CAPTURE(index);
  ToyRun run{.shape = family(index), .layout = toy_layout(), .steps = 20};
  run.training.learning_rate = 0.01;
  const ToyResult result = run_toy(run);
  CAPTURE(result.loss);
  CHECK(std::abs(result.loss.front() - std::log(23.0)) < 0.5);
  CHECK(result.loss.back() < 0.7 * result.loss.front());
}

TEST_CASE("every layout trains the same model", "[real_host]") {
  const int index = GENERATE(0, 1, 2);
  ToyRun alone{.shape = family(index), .layout = toy_layout()};
  // The gradient of a key's bias is zero but for rounding, which Adam would blow up: a softmax does
  // not change when all its scores change alike.
  alone.training.epsilon = 1e-5;
  const ToyResult reference = run_toy(alone);
  const auto check = [&](const char* what, auto change) {
    CAPTURE(index, what);
    ToyRun run = alone;
    change(run.layout);
    check_equal(run_toy(run), reference);
  };

  SECTION("on one rank") {
    check("micro-batches", [](sim::Layout& l) { l.micro_batch = 1; });
    check("unfused attention", [](sim::Layout& l) { l.attention = sim::AttentionKernel::unfused; });
    check("selective recomputation", [](sim::Layout& l) {
      l.attention = sim::AttentionKernel::unfused;
      l.recompute = sim::Recompute::selective;
    });
    check("full recomputation", [](sim::Layout& l) { l.recompute = sim::Recompute::full; });
    check("no masters", [](sim::Layout& l) { l.master_weights = false; });
  }
  SECTION("data parallel") {
    check("two ranks", [](sim::Layout& l) { l.data_parallel = 2; });
    check("small buckets", [](sim::Layout& l) {
      l.data_parallel = 4;
      l.bucket = l.first_bucket = sim::Bytes{2000};
    });
  }
  SECTION("sharded") {
    const int zero = GENERATE(1, 2, 3);
    const int group = GENERATE(0, 2);
    const bool overlap = GENERATE(false, true);
    CAPTURE(zero, group, overlap);
    check("four ranks", [&](sim::Layout& l) {
      l.data_parallel = 4;
      l.micro_batch = 1;
      l.zero_stage = zero;
      l.shard_group = group;
      l.overlap_parameters = overlap;
    });
  }
  SECTION("tensor parallel") {
    const bool sequence = GENERATE(false, true);
    const int zero = GENERATE(0, 1, 2, 3);
    CAPTURE(sequence, zero);
    check("two ranks", [&](sim::Layout& l) {
      l.tensor_parallel = 2;
      l.sequence_parallel = sequence;
      l.data_parallel = zero > 0 ? 2 : 1;
      l.zero_stage = zero;
    });
  }
  SECTION("pipeline") {
    const auto schedule =
        GENERATE(sim::Schedule::gpipe, sim::Schedule::one_f_one_b, sim::Schedule::zb_h1);
    const int tensor = GENERATE(1, 2);
    const bool sequence = GENERATE(false, true);
    CAPTURE(word(schedule), tensor, sequence);
    check("two stages", [&](sim::Layout& l) {
      l.pipeline_parallel = 2;
      l.tensor_parallel = tensor;
      l.sequence_parallel = sequence && tensor > 1;
      l.schedule = schedule;
    });
  }
}
