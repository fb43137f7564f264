#include "sim/plan/sharding/flop_count.hpp"

#include "sim/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/unit/plan/models.hpp"

using namespace sim;

TEST_CASE("A classic GPT takes 72 B s L h^2 (1 + s/6h + V/12hL) FLOPs", "[plan][work]") {
  // Narayanan et al. 2021, section 5.1; full recomputation: 96 and V/16hL.
  const test::GptShape shape{.layers = 6, .hidden = 128, .heads = 8, .vocabulary = 5000};
  const Model model = test::gpt(shape);
  Layout layout = test::layout_for(2, 2, 2, 4);
  const double tokens = static_cast<double>(layout.global_batch * layout.sequence_length);
  const double s = static_cast<double>(layout.sequence_length);
  const double h = 128;
  const double layers = 6;
  const double v = 5000;
  CHECK_THAT(
      make_plan(model, layout).model_flops.count(),
      WithinRel(72 * tokens * layers * h * h * (1 + s / (6 * h) + v / (12 * h * layers)), 1e-12));
  layout.recompute = Recompute::full;
  CHECK_THAT(
      make_plan(model, layout).hardware_flops.count(),
      WithinRel(96 * tokens * layers * h * h * (1 + s / (6 * h) + v / (16 * h * layers)), 1e-12));
  CHECK(make_plan(model, layout).model_flops.count() <
        make_plan(model, layout).hardware_flops.count());
}

TEST_CASE("A causal mask may be counted as half the attention", "[plan][work]") {
  const test::GptShape shape{.layers = 3, .hidden = 64};
  const Model model = test::gpt(shape);
  const Layout layout = test::layout_for(1, 1, 1, 2);
  // Attention, forward and backward: 12 s^2 h per layer and sequence.
  const double attention = 12.0 * 128 * 128 * 64 * 3 * 2;
  CHECK_THAT(model_flops(model, layout, AttentionCount::full).count() -
                 model_flops(model, layout, AttentionCount::causal_half).count(),
             WithinRel(attention / 2, 1e-12));
}

TEST_CASE("Selective recomputation runs the attention core of unfused kernels again",
          "[plan][work]") {
  const Model model = test::gpt({.layers = 3, .hidden = 64});
  Layout layout = test::layout_for(1, 1, 1, 2);
  layout.recompute = Recompute::selective;
  const auto extra = [&] {
    return hardware_flops(model, layout, AttentionCount::full).count() -
           model_flops(model, layout, AttentionCount::full).count();
  };
  CHECK(extra() == 0);  // flash: nothing is dropped
  layout.attention = AttentionKernel::unfused;
  CHECK_THAT(extra(), WithinRel(4.0 * 128 * 128 * 64 * 3 * 2, 1e-12));
}

TEST_CASE("The kernels of all ranks execute the hardware FLOPs", "[plan][work]") {
  // Unfused attention, vocabulary a multiple of 128 t: nothing is padded, halved or run again. The
  // input gradient of the first operator is not needed, but an embedding has none to begin with.
  const Model model = test::gpt({.layers = 4, .hidden = 64, .heads = 4, .vocabulary = 1024});
  const int t = GENERATE(1, 2, 4);
  const int stages = GENERATE(1, 2);
  const auto recompute = GENERATE(Recompute::none, Recompute::selective, Recompute::full);
  Layout layout = test::layout_for(t, 2, stages, 4);
  layout.sequence_parallel = t == 4;
  layout.attention = AttentionKernel::unfused;
  layout.recompute = recompute;
  const Plan plan = make_plan(model, layout);
  double executed = 0;
  for (const Program& program : plan.programs) {
    for (std::uint32_t i = 0; i < program.size(); ++i) {
      if (runs_kernel(program.kind[i])) executed += program.kernels[program.work[i]].flops.count();
    }
  }
  CHECK_THAT(executed * t * 2, WithinRel(plan.hardware_flops.count(), 1e-12));
}
