#include "sim/memory/memory.hpp"

#include "tests/catch.hpp"
#include "tests/support/check_plan.hpp"
#include "tests/unit/plan/models.hpp"

using namespace sim;

namespace {

Bytes persistent(const Program& program, BufferCategory category) {
  Bytes sum;
  for (const Buffer& buffer : program.buffers) {
    if (buffer.persistent && buffer.category == category) sum += buffer.size;
  }
  return sum;
}

double state_gigabytes(const Program& program) {
  return static_cast<double>((persistent(program, BufferCategory::weights) +
                              persistent(program, BufferCategory::gradients) +
                              persistent(program, BufferCategory::optimizer))
                                 .count()) *
         1e-9;
}

double state_of(double parameters, int ranks, int zero_stage) {
  const int layers = 50;
  const Model model = test::layer_list(layers, static_cast<std::int64_t>(parameters) / layers);
  Layout layout = test::layout_for(1, ranks, 1, 1);
  layout.sequence_length = 1;
  layout.zero_stage = zero_stage;
  REQUIRE(layout_problems(layout, model).empty());
  return state_gigabytes(make_plan(model, layout).programs[0]);
}

// Activations alive at the most, and how many bytes a micro-batch leaves between its forward and
// its backward pass: what is alive when the last layer's first operator is issued the second time
// would depend on the schedule, so the kept bytes are summed over the buffers that an operator of
// one layer's forward pass writes and does not hand on.
std::int64_t kept_by_layer(const Model& model, const Layout& layout, int layer) {
  const Plan plan = make_plan(model, layout);
  check_plan(plan);
  const Program& program = plan.programs[0];
  std::vector<bool> alive(program.buffers.size());
  std::int64_t before = -1;
  std::int64_t after = -1;
  std::int64_t now = 0;
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    const OpLabel& label = program.label[i];
    const bool forward = program.pass[i] == Pass::forward && label.microbatch == 0;
    if (forward && label.layer == layer && before < 0) before = now;
    if (forward && label.layer == layer + 1 && after < 0) after = now;
    for (const BufferUse& use : program.buffer_uses(OpId{i})) {
      const Buffer& buffer = program.buffers[use.buffer.value];
      if (buffer.category != BufferCategory::activations) continue;
      if (use.access == Access::write && !alive[use.buffer.value]) {
        alive[use.buffer.value] = true;
        now += buffer.size.count();
      }
      if (use.access == Access::free) {
        alive[use.buffer.value] = false;
        now -= buffer.size.count();
      }
    }
  }
  REQUIRE(before >= 0);
  REQUIRE(after >= 0);
  return after - before;  // both with the layer's input, or its successor's, alive
}

}  // namespace

TEST_CASE("ZeRO on 64 ranks holds 120, 31.4, 16.6 and 1.9 GB of a 7.5 B model", "[plan][memory]") {
  // Rajbhandari et al. 2020, figure 1: 16, 4 + 12/64, 2 + 14/64, 16/64 bytes per parameter.
  CHECK_THAT(state_of(7.5e9, 64, 0), WithinRel(120.0, 1e-3));
  CHECK_THAT(state_of(7.5e9, 64, 1), WithinRel(31.4, 2e-3));
  CHECK_THAT(state_of(7.5e9, 64, 2), WithinRel(16.6, 4e-3));
  CHECK_THAT(state_of(7.5e9, 64, 3), WithinRel(1.875, 1e-3));
}

TEST_CASE("7 B parameters on 8 ranks take 112 GB unsharded and 14 GB fully sharded",
          "[plan][memory]") {
  CHECK_THAT(state_of(7e9, 8, 0), WithinRel(112.0, 1e-6));
  CHECK_THAT(state_of(7e9, 8, 3), WithinRel(14.0, 1e-6));
}

TEST_CASE("Gradients in 32 bits cost two bytes more", "[plan][memory]") {
  const Model model = test::layer_list(4, 1000);
  Layout layout = test::layout_for(1, 1, 1, 1);
  layout.sequence_length = 1;
  layout.gradient_dtype = layout.reduce_dtype = DType::fp32;
  CHECK(state_gigabytes(make_plan(model, layout).programs[0]) * 1e9 == Approx(18 * 4000));
}

TEST_CASE("A classic layer keeps what Korthikanti's formulas say", "[plan][memory]") {
  const test::GptShape shape{.layers = 4, .hidden = 256, .heads = 8, .vocabulary = 1024};
  const Model model = test::gpt(shape);
  const std::int64_t h = shape.hidden;
  const std::int64_t a = shape.heads;
  const std::int64_t s = 128;
  const std::int64_t b = 2;
  const int t = GENERATE(1, 2, 4);
  const bool sequence_parallel = GENERATE(false, true);
  if (sequence_parallel && t == 1) return;
  CAPTURE(t, sequence_parallel);
  Layout layout = test::layout_for(t, 1, 1, 1);
  layout.micro_batch = b;
  layout.global_batch = b;
  layout.sequence_parallel = sequence_parallel;
  layout.attention = AttentionKernel::unfused;
  const std::int64_t sbh = s * b * h;
  const std::int64_t core = 5 * a * s * s * b / t;  // 5 a s / h, divided by t
  // Equations 1, 2 and 4: 34, 10 + 24/t, 34/t.
  const std::int64_t linear = sequence_parallel ? 34 * sbh / t : 10 * sbh + 24 * sbh / t;
  SECTION("no recomputation") {
    CHECK(kept_by_layer(model, layout, 1) == linear + core);
  }
  SECTION("selective recomputation drops the attention core") {
    layout.recompute = Recompute::selective;
    CHECK(kept_by_layer(model, layout, 1) == linear);
  }
  SECTION("a flash kernel keeps one fp32 number per head and token instead") {
    layout.attention = AttentionKernel::flash;
    CHECK(kept_by_layer(model, layout, 1) == linear + 4 * a * s * b / t);
  }
  SECTION("full recomputation keeps the input") {
    layout.recompute = Recompute::full;
    CHECK(kept_by_layer(model, layout, 1) == 2 * sbh / (sequence_parallel ? t : 1));
  }
  SECTION("every second layer recomputed") {
    layout.recompute = Recompute::full;
    layout.recompute_every = 2;
    CHECK(kept_by_layer(model, layout, 2) == 2 * sbh / (sequence_parallel ? t : 1));
    CHECK(kept_by_layer(model, layout, 1) == linear + core);
  }
}

TEST_CASE("Activations grow with the micro-batches alive", "[plan][memory]") {
  const Model model = test::gpt({.layers = 4});
  const auto activations = [&](Schedule schedule, int micro_batches, std::size_t stage) {
    Layout layout = test::layout_for(1, 1, 4, micro_batches);
    layout.schedule = schedule;
    const Plan plan = make_plan(model, layout);
    return memory_use(plan.programs[stage])
        .peak_of[static_cast<std::size_t>(BufferCategory::activations)]
        .count();
  };
  // Stage 1 of 4 (one layer, no embedding): GPipe keeps all m, 1F1B min(m, P - stage) = 3.
  // From two on: the gradient of the next micro-batch comes during the backward pass of one.
  const std::int64_t one = activations(Schedule::gpipe, 3, 1) - activations(Schedule::gpipe, 2, 1);
  CHECK(activations(Schedule::gpipe, 8, 1) - activations(Schedule::gpipe, 2, 1) == 6 * one);
  CHECK(activations(Schedule::one_f_one_b, 8, 1) == activations(Schedule::gpipe, 3, 1));
  CHECK(activations(Schedule::one_f_one_b, 2, 1) == activations(Schedule::gpipe, 2, 1));
}

TEST_CASE("ZeRO-3 holds the gathered weights of its window only", "[plan][memory]") {
  const Model model = test::layer_list(10, 1 << 20);
  Layout layout = test::layout_for(1, 4, 1, 1);
  layout.sequence_length = 1;
  layout.zero_stage = 3;
  const auto gathered = [&] {
    return memory_use(make_plan(model, layout).programs[0])
        .peak_of[static_cast<std::size_t>(BufferCategory::gathered_parameters)]
        .count();
  };
  layout.prefetch_layers = 0;
  CHECK(gathered() == 2 << 20);
  layout.prefetch_layers = 2;
  CHECK(gathered() == 3 * (2 << 20));
  layout.reshard_after_forward = false;
  CHECK(gathered() == 10 * (2 << 20));
}

TEST_CASE("The peak names its operator and adds up by category", "[plan][memory]") {
  const Plan plan = make_plan(test::gpt({}), test::layout_for(2, 2, 1, 2));
  const MemoryUse use = memory_use(plan.programs[0]);
  Bytes sum;
  for (const Bytes bytes : use.at_peak)
    sum += bytes;
  CHECK(sum == use.peak);
  CHECK(use.peak_op.value < plan.programs[0].size());
}
