// Low-rank adapters of routed experts.
#include "sim/plan/sharding/flop_count.hpp"
#include "sim/plan/sharding/low_rank.hpp"
#include "tests/catch.hpp"
#include "tests/unit/plan/block/adapters.hpp"
#include "tests/unit/plan/checked_plan.hpp"
#include "tests/unit/plan/framework_programs.hpp"
#include "tests/unit/plan/models.hpp"

using namespace sim;
using namespace sim::test;

namespace {

// Two tokens of 256 choices each over 8 experts on `ranks` ranks.
Layout of_experts(ExpertAdapters kind, int ranks) {
  Layout layout = test::layout_for(1, 4, 1, 2);
  layout.expert_parallel = ranks;
  layout.zero_stage = 1;
  layout.lora_rank = rank;
  layout.expert_adapters = kind;
  layout.lora_modules = {LoraModule::linear_fc1, LoraModule::linear_fc2};
  return layout;
}

std::int64_t inputs_and_outputs(const Model& model) {
  std::int64_t features = 0;
  for (const Block& layer : model.layers)
    for (const ModelOp& op : layer.ops)
      if (op.experts > 0 && op.kind == ModelOpKind::linear)
        features += op.in_features + op.out_features;
  return features;
}

}  // namespace

TEST_CASE("routed experts have an adapter each, or share one", "[plan][lora][experts]") {
  const Model model = test::mixture(0);
  const std::int64_t one = rank * inputs_and_outputs(model);
  const auto program = [&](ExpertAdapters kind, int ranks) {
    return test::checked_plan(model, of_experts(kind, ranks)).programs[0];
  };
  CHECK(adapter_parameters(model, of_experts(ExpertAdapters::shared, 2)) == one);
  CHECK(adapter_parameters(model, of_experts(ExpertAdapters::each, 2)) == 8 * one);
  for (const int ranks : {1, 2, 4}) {
    CAPTURE(ranks);
    // ZeRO-1 shares states among the 4 / ranks ranks that have the same experts.
    CHECK(bytes_of(program(ExpertAdapters::each, ranks), BufferCategory::optimizer) ==
          12 * (8 / ranks) * one / (4 / ranks));
    CHECK(bytes_of(program(ExpertAdapters::shared, ranks), BufferCategory::optimizer) ==
          12 * one / (4 / ranks));
    CHECK(bytes_of(program(ExpertAdapters::each, ranks), BufferCategory::gradients) ==
          2 * (8 / ranks) * one);
  }
  // The gradients of both factors of two linears of a layer, in two micro-batches.
  CHECK(count(program(ExpertAdapters::shared, 1), Action::exchange_adapted) == 0);
  CHECK(count(program(ExpertAdapters::shared, 2), Action::exchange_adapted) == 2 * 2 * 2 * 4);
  CHECK(count(program(ExpertAdapters::each, 2), Action::exchange_adapted) == 0);
}

TEST_CASE("adapters of experts multiply each choice of a token once", "[plan][lora][experts]") {
  const Model model = test::mixture(0);
  // 128 tokens a rank and micro-batch, two choices each; forward, and gradients of both operands.
  const double choices = 128 * 2 * 2;
  const double expected = 3 * 2 * choices * static_cast<double>(rank * inputs_and_outputs(model));
  for (const ExpertAdapters kind : {ExpertAdapters::shared, ExpertAdapters::each})
    for (const int ranks : {1, 4}) {
      CAPTURE(word(kind), ranks);
      const Program program = test::checked_plan(model, of_experts(kind, ranks)).programs[0];
      CHECK(flops_of(program, Action::adapt) == Approx(expected));
      CHECK(count(program, Action::weight_gradient) == 0);
    }
  Layout none = of_experts(ExpertAdapters::none, 2);
  none.lora_modules = {LoraModule::linear_qkv};
  const auto flops = [&](const Layout& layout) {
    return model_flops(model, layout, AttentionCount::full).count();
  };
  const double wider = [&] {
    Layout layout = of_experts(ExpertAdapters::each, 2);
    layout.lora_rank = 2 * rank;
    return flops(layout);
  }();
  // All four ranks' tokens.
  CHECK(wider - flops(of_experts(ExpertAdapters::each, 2)) == Approx(4 * expected));
}

TEST_CASE("adapters of experts: what is not modelled is refused by key", "[plan][lora][experts]") {
  const Model model = test::mixture(0);
  const auto refused = [&](auto change) {
    Layout layout = of_experts(ExpertAdapters::each, 2);
    change(layout);
    return says(layout, model, "lora.experts");
  };
  CHECK_FALSE(refused([](Layout&) {}));
  CHECK(refused([](Layout& l) { l.lora_modules = {LoraModule::linear_qkv}; }));
  CHECK(refused([](Layout& l) {
    l.tensor_parallel = 2;
    l.data_parallel = 2;
    l.sequence_parallel = true;
  }));
  CHECK(refused([](Layout& l) { l.compute_dtype = DType::fp8; }));
  CHECK(says(of_experts(ExpertAdapters::shared, 1), test::transformer(1), "lora.experts"));
  Layout off = of_experts(ExpertAdapters::each, 2);
  off.lora_rank = 0;
  off.lora_modules = Layout{}.lora_modules;
  CHECK(says(off, model, "lora.rank"));
  Layout beside = of_experts(ExpertAdapters::none, 2);
  CHECK(says(beside, model, "lora.modules"));
}
