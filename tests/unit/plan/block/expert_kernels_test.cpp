// Kernels between the grouped products of Megatron-LM's experts, in programs.
#include <cmath>

#include "sim/framework/framework.hpp"
#include "sim/memory/memory.hpp"
#include "sim/model/expert_bias.hpp"
#include "sim/model/transformer.hpp"
#include "sim/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/support/check_plan.hpp"
#include "tests/unit/plan/framework_programs.hpp"
#include "tests/unit/plan/random_layout.hpp"

using namespace sim;

namespace {

Model biased(int layers = 2) {
  TransformerShape shape = *test::mixture(0, layers).shape;
  shape.family = "gpt_oss";
  shape.experts.router_bias = true;
  shape.qkv_bias = shape.projection_bias = shape.mlp_bias = true;
  Model model = build_transformer(shape);
  run_with(framework_of(FrameworkName::megatron), model);
  return model;
}

Layout layout_of(int experts) {
  Layout layout = test::layout_for(1, 4, 1, 1);
  layout.expert_parallel = experts;
  return layout;
}

Program program_of(const Model& model, const Layout& layout) {
  const Plan plan = make_plan(model, layout);
  check_plan(plan);
  return plan.programs[0];
}

const Kernel& kernel_of(const Program& program, Action action) {
  for (std::uint32_t i = 0; i < program.size(); ++i)
    if (program.action[i] == action &&
        std::string_view{program.name({i})}.starts_with("expert_down_bias"))
      return program.kernels[program.work[i]];
  FAIL("no kernel of the bias");
  return program.kernels.front();
}

}  // namespace

TEST_CASE("every expert of a rank has kernels of its own for its bias", "[plan]") {
  const Model model = biased();
  for (const int ranks : {1, 2, 4}) {
    const Program program = program_of(model, layout_of(ranks));
    const int held = 8 / ranks;
    // Plain operators, of which 5.7 are issued in the time of a kernel of a Megatron layer.
    CHECK(kernel_of(program, Action::forward).launches == std::lround((2 + 2 * held) / 5.7));
    CHECK(kernel_of(program, Action::backward).launches == std::lround((2 + 7 * held) / 5.7));
  }
}

TEST_CASE("the host waits in each layer for the offset that it copies", "[plan]") {
  Model model = biased(3);
  model.execution.waits_for_counts = false;
  model.execution.waits_for_messages = false;
  Layout layout = layout_of(2);
  const auto waits = [&] { return program_of(model, layout).host_waits.size(); };
  CHECK(waits() == 3);
  layout.recompute = Recompute::selective;
  layout.recompute_modules = {RecomputeModule::moe_act};
  CHECK(waits() == 2 * 3);
  model.execution.operation_fuser = true;
  CHECK(waits() == 0);
}

TEST_CASE("each expert's rows are cast by a kernel, but with delayed scaling", "[plan]") {
  Model model = test::mixture(0, 2);
  Layout layout = layout_of(2);
  layout.compute_dtype = DType::fp8;
  const auto launches = [&](EightBit recipe, bool fuser) {
    model.execution.eight_bit = recipe;
    model.execution.operation_fuser = fuser;
    const Program program = program_of(model, layout);
    for (std::uint32_t i = 0; i < program.size(); ++i)
      if (program.action[i] == Action::encode &&
          std::string_view{program.name({i})}.starts_with("expert_up") &&
          program.pass[i] == Pass::backward)
        return program.kernels[program.work[i]].launches;
    return 0;
  };
  const int one = launches(EightBit::transformer_engine, false);
  // Four experts of a rank: three more casts, which take the host less than another launch.
  CHECK(one == 1);
  CHECK(launches(EightBit::transformer_engine_mxfp8, false) == 2);
  CHECK(launches(EightBit::transformer_engine_mxfp8, true) == 1);
  // A maximum, a scale and a cast for each: 3 (4 - 1) / 5.7.
  CHECK(launches(EightBit::transformer_engine_tensorwise, false) == 3 + 2);
}

TEST_CASE("biases and clamps of experts give sound plans", "[plan]") {
  const Model model = biased(4);
  int legal = 0;
  for (std::uint64_t seed = 50000; seed < 50600; ++seed) {
    Layout layout = test::random_layout(seed);
    layout.expert_parallel = 1 << seed % 3;
    if (!layout_problems(layout, model).empty()) continue;
    ++legal;
    CAPTURE(seed, test::to_text(layout));
    const Plan plan = make_plan(model, layout);
    REQUIRE_NOTHROW(check_plan(plan));
    for (const Program& program : plan.programs)
      REQUIRE(memory_use(program).peak.count() > 0);
  }
  CHECK(legal > 10);
}
