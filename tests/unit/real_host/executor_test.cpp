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

// A GPT-like, a Llama-like, and three with everything unusual.
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
  if (index == 3) {
    shape.norm = sim::NormKind::layer_no_bias;
    shape.norm_placement = sim::NormPlacement::post;
    shape.activation = sim::Activation::squared_relu;
    shape.embedding_norm = true;
  }
  if (index == 4) {
    shape.positions = sim::Positions::learned;
    shape.max_sequence = 8;
    shape.activation = sim::Activation::geglu;
    shape.kv_heads = 4;
    shape.head_dim = 6;  // heads * head_dim is not the hidden size
  }
  return shape;
}

}  // namespace

TEST_CASE("the loss falls when a rank trains alone", "[real_host]") {
  const int index = GENERATE(range(0, 5));
  CAPTURE(index);
  ToyRun run{.shape = family(index), .layout = toy_layout(), .steps = 20};
  run.training.learning_rate.peak = 0.01;
  const ToyResult result = run_toy(run);
  CAPTURE(result.loss);
  CHECK(std::abs(result.loss.front() - std::log(23.0)) < 0.5);
  CHECK(result.loss.back() < 0.7 * result.loss.front());
}

TEST_CASE("recomputation changes no bit of what is trained", "[real_host]") {
  struct Case {
    const char* name;
    void (*change)(sim::Layout&);
  };
  const auto one = GENERATE(
      Case{"one rank", [](sim::Layout&) {}},
      Case{"unfused",
           [](sim::Layout& l) { l.attention = sim::AttentionKernel::unfused, l.micro_batch = 1; }},
      Case{"ZeRO-3", [](sim::Layout& l) { l.data_parallel = 2, l.zero_stage = 3; }},
      Case{"tensor", [](sim::Layout& l) { l.tensor_parallel = 2; }},
      Case{"tensor and sequence",
           [](sim::Layout& l) {
             l.tensor_parallel = l.data_parallel = 2, l.sequence_parallel = true;
           }},
      Case{"pipeline", [](sim::Layout& l) { l.pipeline_parallel = 2, l.micro_batch = 1; }},
      Case{"ZB-H1", [](sim::Layout& l) {
             l.pipeline_parallel = l.tensor_parallel = 2, l.schedule = sim::Schedule::zb_h1;
           }});
  const int index = GENERATE(range(0, 5));
  ToyRun run{.shape = family(index), .layout = toy_layout()};
  one.change(run.layout);
  const ToyResult reference = run_toy(run);
  for (const sim::Recompute recompute :
       {sim::Recompute::selective, sim::Recompute::operators, sim::Recompute::full}) {
    CAPTURE(one.name, index, word(recompute));
    run.layout.recompute = recompute;
    CHECK(run_toy(run).weights == reference.weights);
  }
}

TEST_CASE("every layout trains the same model", "[real_host]") {
  const int index = GENERATE(range(0, 5));
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
      l.micro_batch = 1;  // a rank's tokens are half of a sequence
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

TEST_CASE("every algorithm of an all-reduce trains the same model", "[real_host]") {
  ToyRun alone{.shape = family(1), .layout = toy_layout()};
  const ToyResult reference = run_toy(alone);
  const auto choice =
      GENERATE(real::AlgorithmChoice::ring, real::AlgorithmChoice::tree,
               real::AlgorithmChoice::halving_doubling, real::AlgorithmChoice::hierarchical);
  CAPTURE(static_cast<int>(choice));
  ToyRun run = alone;
  run.layout.data_parallel = 4;
  run.layout.tensor_parallel = 2;
  run.layout.micro_batch = 1;
  run.algorithms.of_role.fill(choice);
  run.algorithms.ranks_per_node = 4;
  check_equal(run_toy(run), reference);
}

TEST_CASE("spans of all ranks fit together", "[real_host]") {
  ToyRun run{.shape = family(0), .layout = toy_layout(), .record = true};
  run.layout.tensor_parallel = 2;
  run.layout.pipeline_parallel = 2;
  run.layout.data_parallel = 2;
  run.layout.micro_batch = 1;
  const ToyResult result = run_toy(run);
  for (std::uint32_t rank = 0; rank < 8; ++rank) {
    CAPTURE(rank);
    const sim::Program& program = result.plan.program(sim::RankId{rank});
    const std::vector<sim::Span>& spans = result.spans[rank];
    REQUIRE(spans.size() == program.size());
    std::array<sim::TimePoint, sim::stream_count> stream{};
    for (std::uint32_t i = 0; i < spans.size(); ++i) {
      const sim::Span& span = spans[i];
      CAPTURE(program.name(sim::OpId{i}));
      CHECK(span.op.value == i);
      CHECK(span.begin <= span.active);
      CHECK(span.active <= span.end);
      if (sim::runs_kernel(program.kind[i])) CHECK(span.active == span.begin);
      sim::TimePoint& before = stream[static_cast<std::size_t>(program.stream[i])];
      CHECK(before <= span.begin);
      before = span.end;
      for (const sim::OpId dependency : program.dependencies(sim::OpId{i}))
        CHECK(spans[dependency.value].end <= span.begin);
    }
  }
  // The one all-reduce over the world: active on every rank when the last of them arrived.
  std::vector<sim::Span> norms;
  for (std::uint32_t rank = 0; rank < 8; ++rank) {
    const sim::Program& program = result.plan.program(sim::RankId{rank});
    const auto at =
        std::find(program.action.begin(), program.action.end(), sim::Action::sum_gradient_norm);
    norms.push_back(result.spans[rank][static_cast<std::size_t>(at - program.action.begin())]);
  }
  sim::TimePoint last{};
  for (const sim::Span& span : norms)
    last = std::max(last, span.begin);
  for (const sim::Span& span : norms)
    CHECK(span.active == last);
}

TEST_CASE("the first operator that makes a number that is not finite is found, weights stay",
          "[real_host]") {
  ToyRun run{.shape = family(1), .layout = toy_layout(), .steps = 1};
  run.poison = "layers.1.mlp_up.weight";
  run.layout.pipeline_parallel = GENERATE(1, 2);
  run.layout.data_parallel = 2;
  const ToyResult result = run_toy(run);
  CHECK(std::isnan(result.norm[0]));
  for (std::uint32_t rank = 0; rank < result.not_finite.size(); ++rank) {
    CAPTURE(rank);
    const sim::Program& program = result.plan.program(sim::RankId{rank});
    REQUIRE(result.not_finite[rank] >= 0);
    const sim::OpId op{static_cast<std::uint32_t>(result.not_finite[rank])};
    const bool last = program.stage == run.layout.pipeline_parallel - 1;
    // The stage before gets it back as a gradient.
    CHECK(program.name(op) == (last ? "mlp_up" : "recv_backward"));
    CHECK(program.label[op.value].microbatch == 0);
  }
  ToyRun before = run;
  before.steps = 0;
  const ToyResult initial = run_toy(before);
  for (const auto& [name, values] : initial.weights) {
    if (name != run.poison) CHECK(result.weights.at(name) == values);
  }
}

TEST_CASE("a number that is not finite is found in the expert that made it",
          "[real_host][experts]") {
  ToyRun run{.shape = family(1), .layout = toy_layout(), .steps = 1};
  run.shape.experts = {.count = 5, .per_token = 1, .feed_forward = 8};
  run.layout.sequence_length = 5;  // what a router keeps is then no whole number of floats
  run.layout.global_batch = 2;
  run.layout.micro_batch = 1;
  run.poison = "layers.1.expert_down.weight";
  const ToyResult result = run_toy(run);
  REQUIRE(result.not_finite[0] >= 0);
  const sim::OpId op{static_cast<std::uint32_t>(result.not_finite[0])};
  CHECK(result.plan.program(sim::RankId{0}).name(op) == "expert_down");
}

TEST_CASE("a rank that gives up ends the steps of the others", "[real_host]") {
  ToyRun run{.shape = family(1), .layout = toy_layout()};
  run.layout.data_parallel = 2;
  run.layout.tensor_parallel = 2;
  run.layout.pipeline_parallel = 2;
  run.quits = 3;
  CHECK_THROWS_WITH(run_toy(run), "quit");
}
