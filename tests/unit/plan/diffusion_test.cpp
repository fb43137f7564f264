// Diffusion transformers in plans.
#include <string>

#include "sim/config/reader.hpp"
#include "sim/plan/sharding/flop_count.hpp"
#include "tests/catch.hpp"
#include "tests/unit/plan/checked_plan.hpp"
#include "tests/unit/plan/models.hpp"

using namespace sim;

namespace {

Model small_mmdit() {
  return read_model(Document::parse_yaml(R"(source: made up
diffusion_transformer:
  double_layers: 4
  single_layers: 4
  hidden: 64
  heads: 4
  feed_forward: 256
  image: {size: 128, patch: 16, channels: 8}
  text: {tokens: 64, width: 32}
  vector: 24
)",
                                         "mmdit.yaml"));
}

Layout layout_of_mmdit(int data, int pipeline) {
  Layout layout = test::layout_for(1, data, pipeline, 2);
  layout.micro_batch = 2;
  layout.global_batch *= 2;
  return layout;  // 128 tokens: 64 of text, 64 of the image
}

}  // namespace

TEST_CASE("plans of diffusion transformers are sound", "[plan][diffusion]") {
  const Model model = small_mmdit();
  Layout layout = layout_of_mmdit(2, GENERATE(1, 2));
  layout.zero_stage = layout.pipeline_parallel > 1 ? GENERATE(0, 1) : GENERATE(0, 2, 3);
  layout.recompute = GENERATE(Recompute::none, Recompute::full);
  test::checked_plan(model, layout);
  layout.context_parallel = 2;
  if (layout.pipeline_parallel == 1) test::checked_plan(model, layout);
}

// Each product runs once forward and twice backward; the first one of all has no input gradient,
// nor has the modulation of the first block one that is left out: its input is a vector.
TEST_CASE("the products of a diffusion transformer have the FLOPs that are counted",
          "[plan][diffusion]") {
  const Model model = small_mmdit();
  const Layout layout = layout_of_mmdit(1, 1);
  const Plan plan = test::checked_plan(model, layout);
  double products = 0;
  const auto add = [&](const Block& block) {
    for (const ModelOp& op : block.ops)
      if (op.kind == ModelOpKind::linear)
        products += 6.0 * static_cast<double>(op.in_features * op.out_features) *
                    (op.once_per_sequence ? 1 : 128);
  };
  for (const Block& layer : model.layers)
    add(layer);
  add(model.output);
  CHECK(test::gemm_flops(plan.programs[0]) == Approx(4 * products));  // sequences
}

TEST_CASE("two streams are two products of half the tokens each", "[plan][diffusion]") {
  const Model model = small_mmdit();
  const Program program = make_plan(model, layout_of_mmdit(1, 1)).programs[0];
  int found = 0;
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    if (program.name(OpId{op}) != "qkv" || program.pass[op] != Pass::forward) continue;
    const Kernel& kernel = program.kernels[program.work[op]];
    CHECK(kernel.batch == 2);
    CHECK(kernel.m == 128);  // of 2 x 128
    ++found;
  }
  CHECK(found == 2 * 4);  // micro-batches, double blocks
}

TEST_CASE("what diffusion transformers are not modelled with is refused", "[plan][diffusion]") {
  const auto first = [](const auto& change) {
    const Model model = small_mmdit();
    Layout layout = layout_of_mmdit(2, 1);
    change(layout);
    const auto problems = layout_problems(layout, model);
    return problems.empty() ? std::string{"none"} : problems.front().what;
  };
  CHECK(first([](Layout&) {}) == "none");
  CHECK(first([](Layout& l) { l.tensor_parallel = 2; }) ==
        "tensor_parallel is 2: not modelled for diffusion transformers; allowed: 1");
  CHECK(first([](Layout& l) { l.optimizer = OptimizerKind::muon; }) ==
        "optimizer is muon: not modelled for diffusion transformers; allowed: all but muon");
  CHECK(first([](Layout& l) { l.lora_rank = 8; }) ==
        "lora.rank is 8: not modelled for diffusion transformers; allowed: 0");
}
