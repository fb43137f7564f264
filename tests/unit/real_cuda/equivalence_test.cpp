// The CUDA backend's own sources on the fakes of CUDA (tests/gpu/fakes): any layout, and any order
// of execution that its events allow, trains the model that the host backend trains.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "tests/catch.hpp"
#include "tests/gpu/fakes/fake_device.hpp"
#include "tests/gpu/fakes/fake_nccl.hpp"
#include "tests/unit/real_cuda/cases.hpp"

using namespace cuda_test;  // NOLINT(google-build-using-namespace)

TEST_CASE("in fp32 the CUDA backend trains what the host trains, whatever order events allow",
          "[real_cuda]") {
  const auto index = static_cast<std::size_t>(GENERATE(range(0, static_cast<int>(cases().size()))));
  const bool llama = GENERATE(false, true);
  const Case chosen = cases()[index];
  CAPTURE(chosen.name, llama);
  ToyRun run = base(llama);
  chosen.change(run);
  const ToyResult reference = reference_of(run);
  // Layouts go in issue order with one model, and in an order drawn for each with the other.
  run.behaviour.seed = llama ? 11 + 2 * index : 0;
  check_equal(run_toy(run), reference, 1e-5);
}

TEST_CASE("a captured step does what an issued one does", "[real_cuda]") {
  const auto index = static_cast<std::size_t>(GENERATE(0, 2, 5, 8, 11, 14, 16, 19, 21, 24, 30));
  const Case chosen = cases()[index];
  CAPTURE(chosen.name);
  ToyRun run = base(true);
  chosen.change(run);
  run.graphs = true;
  run.steps = 4;
  run.behaviour.seed = 5 + index;
  check_equal(run_toy(run), reference_of(run), 1e-5);
}

// A captured graph reads the rate of its step from device memory.
TEST_CASE("the learning rate of every step is the schedule's, captured or not", "[real_cuda]") {
  const bool graphs = GENERATE(false, true);
  CAPTURE(graphs);
  ToyRun run = base(true);
  run.steps = 6;
  run.graphs = graphs;
  run.training.learning_rate = {.peak = 0.02,
                                .warmup_steps = 2,
                                .decay = sim::RateDecay::cosine,
                                .minimum = 0.001,
                                .decay_steps = 5};
  const ToyResult result = run_toy(run);
  check_equal(result, reference_of(run), 1e-5);
  // Step 0 has the rate 0: the second step sees the weights of the first.
  run.steps = 1;
  ToyRun still = run;
  still.training.learning_rate = {.peak = 0};
  CHECK(run_toy(run).weights == run_toy(still).weights);
}

// bf16 has 8 bits of mantissa, so a rounding moves a value by 2^-9 = 0.2% at most; sums of many
// average that out. The bound is five roundings of the loss itself.
TEST_CASE("in bf16 losses follow the fp32 run within one percent", "[real_cuda]") {
  const auto index = static_cast<std::size_t>(GENERATE(0, 2, 5, 8, 9, 13, 16, 18, 22, 23, 29, 30));
  const bool fp32_gradients = GENERATE(false, true);
  const Case chosen = cases()[index];
  CAPTURE(chosen.name, fp32_gradients);
  ToyRun run = base(false);
  chosen.change(run);
  const ToyResult reference = reference_of(run);
  run.layout.compute_dtype = run.layout.activation_dtype = sim::DType::bf16;
  run.layout.reduce_dtype = sim::DType::bf16;
  run.layout.gradient_dtype = fp32_gradients ? sim::DType::fp32 : sim::DType::bf16;
  const ToyResult result = run_toy(run);
  require_success(result);
  for (std::size_t i = 0; i < result.loss.size(); ++i) {
    CHECK(std::abs(result.loss[i] / reference.loss[i] - 1) < 0.01);
  }
}

// A moment is off by 2^-8 of itself at most, and so is about an update.
TEST_CASE("moments in bf16 train nearly what moments in fp32 do, whatever shards them",
          "[real_cuda]") {
  ToyRun run = base(true);
  run.layout.data_parallel = 2;
  run.layout.zero_stage = GENERATE(0, 1, 3);
  run.layout.master_weights = run.layout.zero_stage < 3;
  CAPTURE(run.layout.zero_stage);
  const ToyResult wide = reference_of(run);
  run.layout.moment_dtype = sim::DType::bf16;
  const ToyResult result = run_toy(run);
  check_equal(result, reference_of(run), 1e-5);
  CHECK(result.loss != wide.loss);
  check_equal(result, wide, 1e-3);
}

TEST_CASE("the algorithm of an all-reduce is the one that was asked for", "[real_cuda]") {
  const auto choice = GENERATE(real::AlgorithmChoice::ring, real::AlgorithmChoice::tree,
                               real::AlgorithmChoice::hierarchical);
  ToyRun run = base(false);
  run.layout.data_parallel = 4;
  run.layout.micro_batch = 1;
  run.algorithms.of_role[static_cast<std::size_t>(sim::GroupRole::data)] = choice;
  run.algorithms.ranks_per_node = 2;
  const ToyResult reference = reference_of(run);
  fakes::forget_communicators();
  (void)unsetenv("NCCL_ALGO");
  check_equal(run_toy(run), reference, 1e-5);
  const auto made = fakes::communicators_made();
  const auto count = [&](int ranks, const std::string& algorithm) {
    return std::count_if(made.begin(), made.end(), [&](const auto& record) {
      return record.ranks == ranks && record.algorithm == algorithm;
    });
  };
  const auto of_size = [&](int ranks) {
    return std::count_if(made.begin(), made.end(),
                         [&](const auto& record) { return record.ranks == ranks; });
  };
  // The environment is one for all ranks here, as they are threads: each sees what any has set.
  switch (choice) {
    case real::AlgorithmChoice::ring:
      CHECK(count(4, "allreduce:ring") >= 1);
      CHECK(of_size(4) == 8);  // of each rank, the replicas and the world (gradient norm)
      break;
    case real::AlgorithmChoice::tree:
      CHECK(count(4, "allreduce:tree") >= 1);
      CHECK(of_size(4) == 8);
      break;
    default:
      CHECK(of_size(2) == 8);  // of each rank, its node and its rail
      CHECK(of_size(4) == 4);
  }
}

TEST_CASE("spans of a recorded step keep the order of streams and dependencies", "[real_cuda]") {
  ToyRun run = base(false);
  run.layout.tensor_parallel = 2;
  run.layout.pipeline_parallel = 2;
  run.record = true;
  run.graphs = GENERATE(false, true);
  CAPTURE(run.graphs);
  const ToyResult result = run_toy(run);
  require_success(result);
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    CAPTURE(rank);
    const sim::Program& program = result.plan.program(sim::RankId{rank});
    const std::vector<sim::Span>& spans = result.spans[rank];
    REQUIRE(spans.size() == program.size());
    std::array<sim::TimePoint, sim::stream_count> stream{};
    for (std::uint32_t i = 0; i < spans.size(); ++i) {
      const sim::Span& span = spans[i];
      CHECK(span.op.value == i);
      CHECK(span.begin <= span.active);
      CHECK(span.active <= span.end);
      if (sim::runs_kernel(program.kind[i])) CHECK(span.active == span.begin);
      sim::TimePoint& before = stream[static_cast<std::size_t>(program.stream[i])];
      CHECK(before <= span.begin + std::chrono::nanoseconds{2});  // a float of milliseconds
      before = span.end;
    }
  }
}

TEST_CASE("the first operator that makes a number that is not finite is named, weights stay",
          "[real_cuda]") {
  ToyRun run = base(true);
  run.steps = 1;
  run.poison = "layers.1.mlp_up.weight";
  run.layout.pipeline_parallel = GENERATE(1, 2);
  run.layout.data_parallel = 2;
  const ToyResult result = run_toy(run);
  require_success(result);
  for (std::uint32_t rank = 0; rank < result.not_finite.size(); ++rank) {
    CAPTURE(rank);
    const sim::Program& program = result.plan.program(sim::RankId{rank});
    REQUIRE(result.not_finite[rank] >= 0);
    const sim::OpId op{static_cast<std::uint32_t>(result.not_finite[rank])};
    const bool last = program.stage == run.layout.pipeline_parallel - 1;
    CHECK(program.name(op) == (last ? "mlp_up" : "recv_backward"));
    CHECK(program.label[op.value].microbatch == 0);
  }
  for (const auto& [name, values] : result.weights) {
    for (const float value : values)
      CHECK((std::isnan(value) || value == 0.01F));
  }
}

TEST_CASE("a number that is not finite is found in the experts that made it",
          "[real_cuda][experts]") {
  ToyRun run = base(true);
  run.steps = 1;
  run.shape.experts = {.count = 4, .per_token = 2, .feed_forward = 24};
  run.poison = "layers.1.expert_up.weight";
  run.layout.data_parallel = run.layout.expert_parallel = 2;
  const ToyResult result = run_toy(run);
  require_success(result);
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    REQUIRE(result.not_finite[rank] >= 0);
    const sim::OpId op{static_cast<std::uint32_t>(result.not_finite[rank])};
    CHECK(result.plan.program(sim::RankId{rank}).name(op) == "expert_up");
  }
}

TEST_CASE("a rank that hangs ends the others with the operator that waits for it", "[real_cuda]") {
  ToyRun run = base(false);
  run.layout.data_parallel = 2;
  run.hangs = 1;
  run.timeout = std::chrono::milliseconds{300};
  const ToyResult result = run_toy(run);
  CHECK_THAT(result.failures[0],
             Catch::Matchers::StartsWith("rank 0: ") &&
                 Catch::Matchers::EndsWith(": the device did not get through it within 300 ms"));
}

TEST_CASE("a GPU that is too small is named with the bytes that were wanted", "[real_cuda]") {
  ToyRun run = base(false);
  run.behaviour.memory = 1000;
  const ToyResult result = run_toy(run);
  fakes::set_behaviour({});
  CHECK_THAT(result.failures[0],
             Catch::Matchers::StartsWith("out of memory: ") &&
                 Catch::Matchers::EndsWith(
                     " bytes for the arena (1000 of 1000 bytes of the GPU are free)"));
}
