// Kernels that Megatron-LM's experts launch between their grouped products, counted again tensor by
// tensor: a 16-bit value is an element, an fp32 value two, a byte of a mask a half.
#include "sim/framework/expert_kernels.hpp"

#include "sim/model/expert_bias.hpp"
#include "tests/catch.hpp"
#include "tests/unit/model/shapes.hpp"

using namespace sim;

namespace {

constexpr std::int64_t hidden = 256, width = 96;

TransformerShape mixture(bool biases, const char* family) {
  TransformerShape shape = llama(2, hidden, 4, 2, width);
  shape.family = family;
  shape.experts = {.count = 8, .per_token = 2, .feed_forward = width, .shared_feed_forward = 64};
  shape.qkv_bias = shape.projection_bias = shape.mlp_bias = biases;
  return shape;
}

Model megatron(const TransformerShape& shape, bool fuser = false) {
  Framework framework = framework_of(FrameworkName::megatron);
  framework.execution.operation_fuser = fuser;
  Model model = build_transformer(shape);
  run_with(framework, model);
  return model;
}

std::size_t index_of(const Model& model, std::string_view name) {
  const auto& ops = model.layers[0].ops;
  return static_cast<std::size_t>(std::ranges::find(ops, name, &ModelOp::name) - ops.begin());
}

const ModelOp& op_of(const Model& model, std::string_view name) {
  return model.layers[0].ops.at(index_of(model, name));
}

constexpr double half = 1, full = 2, mask = 0.5;

}  // namespace

TEST_CASE("the bias behind the experts' second product is added in fp32", "[model]") {
  const Model model = megatron(mixture(true, "llama"));
  REQUIRE(index_of(model, "expert_down_bias") == index_of(model, "expert_down") + 1);
  const ModelOp& op = op_of(model, "expert_down_bias");
  CHECK(is_expert_bias(op));
  const double weighed = full, added = half + full + full, joined = full + full, back = full + half;
  CHECK(op.forward_elements == (weighed + added + joined + back) * hidden);
  const double gradient = half + full, of_tokens = full + half, product = full + full, sum = full;
  CHECK(op.backward_elements ==
        (gradient + of_tokens + 2 * (product + sum) + half + half) * hidden);
  CHECK(op.biases == 0);
  CHECK(op_of(model, "expert_down").biases == 8 * hidden);
  CHECK(op_of(model, "expert_down").backward_elements == 0);
  CHECK(op_of(model, "expert_up").backward_elements > 0);
}

TEST_CASE("sums behind the experts' bias find their branches", "[model]") {
  const Model with = megatron(mixture(true, "llama")), without = megatron(mixture(false, "llama"));
  for (const ModelOp& op : without.layers[0].ops) {
    const ModelOp& other = op_of(with, op.name);
    const auto name_at = [](const Model& model, int index) {
      return index < 0 ? std::string{}
                       : model.layers[0].ops.at(static_cast<std::size_t>(index)).name;
    };
    CAPTURE(op.name);
    CHECK(name_at(with, other.residual_of) == name_at(without, op.residual_of));
    CHECK(name_at(with, other.starts_from) == name_at(without, op.starts_from));
  }
}

TEST_CASE("gpt-oss clamps both halves in kernels of their own, and joins them", "[model]") {
  const Model model = megatron(mixture(true, "gpt_oss"));
  const ModelOp plain = op_of(megatron(mixture(true, "llama")), "expert_activation");
  const ModelOp& op = op_of(model, "expert_activation");
  const double clamp = half + half, join = 2 * (half + half);
  CHECK(op.forward_elements - plain.forward_elements == (2 * clamp + join) * width);
  const double compare = half + mask, both = 2 * mask + mask, choose = mask + half + half;
  CHECK(op.backward_elements - plain.backward_elements ==
        (compare + choose + 2 * compare + both + choose + join) * width);
  // Three and seven plain operators: less than two launches of a Megatron layer.
  CHECK(op.forward_launches == plain.forward_launches + 1);
  CHECK(op.backward_launches == plain.backward_launches + 1);
  CHECK(op.saved_elements - plain.saved_elements == 2 * width);
  CHECK(copies_offset(model, op));
  CHECK_FALSE(copies_offset(model, op_of(model, "shared_expert_activation")));
  CHECK(op_of(model, "shared_expert_activation").forward_launches == 1);
}

TEST_CASE("grouped products of the operation fuser clamp and add themselves", "[model]") {
  const Model model = megatron(mixture(true, "gpt_oss"), true);
  CHECK(index_of(model, "expert_down_bias") == model.layers[0].ops.size());
  CHECK(op_of(model, "expert_activation").forward_launches == 1);
  CHECK_FALSE(copies_offset(model, op_of(model, "expert_activation")));
}

TEST_CASE("Automodel adds both biases of its experts for all of them at once", "[model]") {
  Framework framework = framework_of(FrameworkName::pytorch);
  const auto built = [&](ExpertForm form, bool biases) {
    framework.execution.experts = form;
    Model model = build_transformer(mixture(biases, "gpt_oss"));
    run_with(framework, model);
    return model;
  };
  for (const ExpertForm form : {ExpertForm::automodel, ExpertForm::automodel_each}) {
    const Model model = built(form, true);
    REQUIRE(index_of(model, "expert_up_bias") == index_of(model, "expert_up") + 1);
    REQUIRE(index_of(model, "expert_down_bias") == index_of(model, "expert_down") + 1);
    const ModelOp& first = op_of(model, "expert_up_bias");
    const double up = static_cast<double>(op_of(model, "expert_up").out_features);
    // Repeated, and added; backward, the sum of the rows.
    CHECK(first.forward_elements == (1 + 2 + 1) * up);
    CHECK(first.backward_elements == up);
    const ModelOp& second = op_of(model, "expert_down_bias");
    const double down = static_cast<double>(op_of(model, "expert_down").out_features);
    // In fp32: repeated 2, weighed 2 + 2, added 1 + 2 + 2, cast 2 + 1.
    CHECK(second.forward_elements == (2 + 4 + 5 + 3) * down);
    // Casts 3 + 3, products 4 + 6, sums 2 + 2.
    CHECK(second.backward_elements == (3 + 3 + 4 + 6 + 2 + 2) * down);
    CHECK(second.saved_elements == 2 * down);
    // The clamp is part of the compiled activation.
    CHECK(op_of(model, "expert_activation").forward_launches == 1);
    CHECK(op_of(model, "expert_down").backward_elements == 0);
  }
  const Model without = built(ExpertForm::automodel, false);
  CHECK(index_of(without, "expert_down_bias") == without.layers[0].ops.size());
}

TEST_CASE("experts without biases, and those of other frameworks, stay as they are", "[model]") {
  const Model built = build_transformer(mixture(false, "llama"));
  CHECK(megatron(mixture(false, "llama")).layers == built.layers);
  Model titan = build_transformer(mixture(true, "gpt_oss"));
  run_with(framework_of(FrameworkName::torchtitan), titan);
  CHECK(index_of(titan, "expert_down_bias") == titan.layers[0].ops.size());
}

TEST_CASE("fused kernels choose the experts in fewer launches", "[model]") {
  const auto router = [](bool fused, ExpertForm experts) {
    Framework framework = framework_of(FrameworkName::megatron);
    framework.execution.router_fusion = fused;
    framework.execution.experts = experts;
    Model model = build_transformer(mixture(false, "mixtral"));
    run_with(framework, model);
    for (const ModelOp& op : model.layers.front().ops)
      if (op.kind == ModelOpKind::router) return op;
    FAIL("no router");
    return ModelOp{};
  };
  const ModelOp single = router(false, ExpertForm::megatron);
  const ModelOp fused = router(true, ExpertForm::megatron);
  CHECK(single.forward_launches == 30);
  CHECK(fused.forward_launches == 13);
  CHECK(fused.backward_launches == 5);
  // 32 and 41 bytes for each of 8 experts, in elements of two.
  CHECK(fused.forward_elements == 8 * 16);
  CHECK(fused.backward_elements == 8 * 20.5);
  CHECK(router(true, ExpertForm::torchtitan) == router(false, ExpertForm::torchtitan));
}
