// Plans of models that have more than GPT and Llama: norms behind branches, scaled branches,
// windows, layers that differ.
#include <algorithm>
#include <string>
#include <vector>

#include "sim/framework/framework.hpp"
#include "sim/memory/memory.hpp"
#include "sim/model/transformer.hpp"
#include "sim/plan/plan.hpp"
#include "sim/plan/sharding/flop_count.hpp"
#include "sim/plan/sharding/sharding.hpp"
#include "tests/catch.hpp"
#include "tests/support/check_plan.hpp"
#include "tests/unit/plan/chain_rule.hpp"
#include "tests/unit/plan/models.hpp"
#include "tests/unit/plan/random_layout.hpp"

using namespace sim;

namespace {

std::string first_problem(const Layout& layout, const Model& model) {
  const std::vector<LayoutProblem> problems = layout_problems(layout, model);
  return problems.empty() ? "" : problems.front().what;
}

std::vector<Kernel> attention_kernels(const Plan& plan) {
  std::vector<Kernel> kernels;
  for (const Kernel& kernel : plan.programs.front().kernels)
    if (kernel.kind == OpKind::attention && kernel.part == AttentionPart::forward)
      kernels.push_back(kernel);
  return kernels;
}

Model windowed(std::int64_t window) {
  TransformerShape shape = *test::newer_transformer(1, 4).shape;
  shape.window = window;
  shape.attention_softcap = false;
  return build_transformer(shape);
}

}  // namespace

TEST_CASE("Operands of newer families hold what the chain rule asks for", "[plan][property]") {
  std::vector<Model> models;
  models.reserve(2 * static_cast<std::size_t>(test::newer_kinds));
  for (int kind = 0; kind < test::newer_kinds; ++kind)
    models.push_back(test::newer_transformer(kind));
  for (int kind = 0; kind < test::newer_kinds; ++kind) {
    models.push_back(test::newer_transformer(kind));
    test::run_compiled(models.back().execution);
    models.back().execution.stops_recomputation = true;
    models.back().execution.holds_units = models.back().execution.accumulates_whole = true;
    models.back().execution.keeps_gathered = kind % 2 == 0;
  }
  std::vector<int> legal(models.size());
  for (std::uint64_t seed = 30000; seed < 32400; ++seed) {
    Layout layout = test::random_layout(seed);
    layout.context_parallel = 1;
    const auto kind = static_cast<std::size_t>(seed % models.size());
    if (!layout_problems(layout, models[kind]).empty()) continue;
    ++legal[kind];
    CAPTURE(seed, kind, test::to_text(layout));
    const Plan plan = make_plan(models[kind], layout);
    REQUIRE_NOTHROW(check_plan(plan));
    for (const Program& program : plan.programs) {
      REQUIRE(memory_use(program).peak.count() > 0);
      test::Interpreter{models[kind], plan, program}.run();
    }
  }
  CHECK(*std::min_element(legal.begin(), legal.end()) > 10);
}

TEST_CASE("a flash kernel skips what lies outside of a window", "[plan]") {
  // 128 tokens: of 128^2 / 2 scores those in a window of 32 are 32 * 128 - 32^2 / 2 = 3584.
  Layout layout = test::layout_for(1, 1, 1, 1);
  layout.attention = AttentionKernel::flash;
  const std::vector<Kernel> kernels = attention_kernels(make_plan(windowed(32), layout));
  REQUIRE(kernels.size() == 2);
  CHECK(kernels[0].window == 32);
  CHECK(kernels[1].window == 0);
  CHECK_THAT(kernels[0].flops.count(), WithinRel(kernels[1].flops.count() * 3584 / 8192, 1e-12));
  CHECK(kernels[0].bytes == kernels[1].bytes);
}

TEST_CASE("a window that is not shorter than the sequence changes nothing", "[plan]") {
  Layout layout = test::layout_for(1, 1, 1, 1);
  layout.attention = AttentionKernel::flash;
  const Model whole = windowed(0);
  for (const std::int64_t window : {128, 129, 4096}) {
    const Model model = windowed(window);
    const std::vector<Kernel> kernels = attention_kernels(make_plan(model, layout));
    CHECK(kernels == attention_kernels(make_plan(whole, layout)));
    CHECK(model_flops(model, layout, AttentionCount::causal_half).count() ==
          model_flops(whole, layout, AttentionCount::causal_half).count());
    CHECK(forward_flops(model, 128).count() == forward_flops(whole, 128).count());
  }
  CHECK(model_flops(windowed(64), layout, AttentionCount::full).count() <
        model_flops(whole, layout, AttentionCount::full).count());
}

TEST_CASE("an unfused attention works on all scores, whatever the window", "[plan]") {
  Layout layout = test::layout_for(1, 1, 1, 1);
  layout.attention = AttentionKernel::unfused;
  const std::vector<Kernel> kernels = attention_kernels(make_plan(windowed(32), layout));
  REQUIRE(kernels.size() == 2);
  CHECK(kernels[0].flops.count() == kernels[1].flops.count());
  // The softmax reads whole rows: half a matrix more of 4 heads, 128^2 scores in 2 bytes.
  CHECK(kernels[0].bytes - kernels[1].bytes == Bytes{4 * 128 * 128});
}

TEST_CASE("a soft cap is six passes over the scores of an unfused attention", "[plan]") {
  Layout layout = test::layout_for(1, 1, 1, 1);
  layout.attention = AttentionKernel::unfused;
  Model capped = windowed(0);
  capped.attention.softcap = true;
  const Kernel with = attention_kernels(make_plan(capped, layout)).front();
  const Kernel without = attention_kernels(make_plan(windowed(0), layout)).front();
  CHECK(with.bytes - without.bytes == Bytes{6 * 2 * 4 * 128 * 128});
  CHECK(with.launches == without.launches + 3);
}

TEST_CASE("a window goes over context ranks where one kernel has all keys", "[plan]") {
  const auto problem = [](ContextExchange exchange, std::int64_t window,
                          ContextForm form = ContextForm::transformer_engine) {
    Layout layout = test::context_layout(2, exchange);
    layout.attention = AttentionKernel::flash;
    Model model = windowed(window);
    model.execution.context = form;
    return first_problem(layout, model);
  };
  CHECK(problem(ContextExchange::all_gather, 64).empty());
  CHECK(problem(ContextExchange::all_to_all, 64).empty());
  CHECK(problem(ContextExchange::ring, 1024).empty());
  const std::string refused =
      "context_parallel is 2, but layers of test-newer see a window of 64 tokens of 1024; allowed: "
      "1, or framework megatron with context_exchange all_gather or all_to_all";
  CHECK(problem(ContextExchange::ring, 64) == refused);
  CHECK(problem(ContextExchange::all_gather, 64, ContextForm::eager) == refused);
}

TEST_CASE("a mixture with sinks and biases gives sound plans", "[plan]") {
  TransformerShape shape = *test::mixture(0, 4).shape;
  shape.attention_sinks = shape.experts.router_bias = true;
  shape.qkv_bias = shape.projection_bias = shape.mlp_bias = true;
  shape.window = 32;
  shape.full_attention.layers = {1, 3};
  const Model model = build_transformer(shape);
  int legal = 0;
  for (std::uint64_t seed = 40000; seed < 41000; ++seed) {
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
  Layout split = test::context_layout(2, ContextExchange::all_to_all);
  CHECK_FALSE(layout_problems(split, model).empty());
}

TEST_CASE("a norm over all heads is refused under tensor parallelism", "[plan]") {
  const Model olmo = test::newer_transformer(0);
  CHECK(first_problem(test::layout_for(1, 2, 1, 1), olmo).empty());
  CHECK(first_problem(test::layout_for(2, 1, 1, 1), olmo)
            .starts_with("tensor_parallel is 2, but test-newer norms all queries"));
}

TEST_CASE("a norm over all heads is eager where norms are", "[plan]") {
  Model olmo = test::newer_transformer(0, 1);
  const ModelOp fused = olmo.layers[0].ops[1];
  REQUIRE(fused.name == "qk_norm");
  run_with(framework_of(FrameworkName::pytorch), olmo);
  const ModelOp& eager = olmo.layers[0].ops[1];
  CHECK(eager.forward_elements == fused.forward_elements / 3 * 18);
  CHECK(eager.forward_launches == 16);
}
