// A vision encoder in front of a language model (Layout::images).
#include <map>
#include <string>

#include "sim/memory/memory.hpp"
#include "sim/model/transformer.hpp"
#include "sim/plan/sharding/flop_count.hpp"
#include "tests/catch.hpp"
#include "tests/support/program_digest.hpp"
#include "tests/unit/plan/checked_plan.hpp"
#include "tests/unit/plan/models.hpp"

using namespace sim;

namespace {

// As Qwen3-VL and Qwen2.5-VL have them: a token is made of four patches.
VisionEncoder small_encoder() {
  VisionEncoder vision;
  vision.layers = 3;
  vision.hidden = 48;
  vision.heads = 4;
  vision.feed_forward = 96;
  vision.patch = 4;
  vision.positions = 16;
  vision.rotary = true;
  vision.window = 8;
  vision.full_attention.layers = {1};
  vision.projector.merge = 2;
  vision.projector.widths = {192};
  vision.projector.deepstack = 2;
  return vision;
}

Model with_encoder(int kind = 1) {
  TransformerShape shape = *test::transformer(kind).shape;
  shape.vision = small_encoder();
  return build_transformer(shape);
}

Layout with_images(int tensor, int data, int pipeline, int micro_batches) {
  Layout layout = test::layout_for(tensor, data, pipeline, micro_batches);
  layout.images = 3;
  layout.image_tokens = 8;  // 32 patches
  return layout;
}

std::map<std::string, int> runs_of(const Program& program, Pass pass) {
  std::map<std::string, int> runs;
  for (std::uint32_t op = 0; op < program.size(); ++op)
    if (program.pass[op] == pass) ++runs[std::string{program.name(OpId{op})}];
  return runs;
}

// FLOPs of products and attention for one image in the forward pass.
double encoder_flops(double tokens, double hidden) {
  const double patches = 4 * tokens, h = 48, f = 96;
  double products = 3.0 * 4 * 4 * h * patches;
  double attention = 0;
  for (int layer = 0; layer < 3; ++layer) {
    products += patches * (3 * h * h + h * h + 2 * h * f);
    attention += patches * (layer == 1 ? patches : 8) * h * 2;
  }
  const double merger = 4 * h * 4 * h + 4 * h * hidden;
  return 2 * (products + attention + 3 * tokens * merger);
}

}  // namespace

TEST_CASE("an encoder adds three times its forward FLOPs, and once where it is frozen",
          "[plan][vision]") {
  const Model model = with_encoder();
  Layout layout = with_images(1, 2, 1, 2);
  const double hidden = static_cast<double>(model.hidden);
  const double once = encoder_flops(8, hidden) * 3 * 4;  // images, sequences
  const double merger = 2.0 * 3 * 8 * (192.0 * 192 + 192 * hidden) * 3 * 4;
  Model language = model;
  leave_out_vision(language);
  Layout text = layout;
  text.images = text.image_tokens = 0;
  const double base = model_flops(language, text, AttentionCount::full).count();
  const auto more = [&] { return model_flops(model, layout, AttentionCount::full).count() - base; };
  CHECK(more() == Approx(3 * once));
  layout.freeze_vision_model = true;
  CHECK(more() == Approx(once + 2 * merger));
  layout.freeze_vision_projection = true;
  CHECK(more() == Approx(once));
  layout = with_images(1, 2, 1, 2);
  layout.recompute = text.recompute = Recompute::full;
  const double again = hardware_flops(model, layout, AttentionCount::full).count() -
                       model_flops(model, layout, AttentionCount::full).count();
  const double again_of_text = hardware_flops(language, text, AttentionCount::full).count() -
                               model_flops(language, text, AttentionCount::full).count();
  const double patch = 2.0 * 48 * 48 * 32 * 3 * 4;  // the patch embedding is not run again
  CHECK(again - again_of_text == Approx(once - merger - patch));
}

TEST_CASE("the encoder runs before the first layer and behind all of them backward",
          "[plan][vision]") {
  const Model model = with_encoder();
  const Layout layout = with_images(1, 1, 2, 2);
  const Plan plan = test::checked_plan(model, layout);
  const auto forward = runs_of(plan.programs[0], Pass::forward);
  CHECK(forward.at("vision.patch_embedding") == 2);
  CHECK(forward.at("vision.attention") == 2 * 3);
  CHECK(forward.at("vision.projector_2") == 2);
  CHECK(forward.at("place_images") == 2);
  CHECK(runs_of(plan.programs[1], Pass::forward).count("vision.attention") == 0);
  const auto backward = runs_of(plan.programs[0], Pass::backward);
  CHECK(backward.at("vision.attention") == 2 * 3);
  CHECK(backward.at("vision.deepstack_up.weight_gradient") == 2);
  CHECK(backward.at("vision.patch_embedding.weight_gradient") == 2);
  CHECK(backward.count("vision.patch_embedding.input_gradient") == 0);
}

TEST_CASE("what is frozen has no backward pass, gradients or optimizer states",
          "[plan][vision]") {
  const Model model = with_encoder();
  Layout layout = with_images(1, 2, 1, 2);
  layout.zero_stage = GENERATE(0, 1, 2, 3);
  const Model& encoder = model.vision.front();
  const auto states = [&](const Layout& of) {
    const Plan plan = test::checked_plan(model, of);
    return memory_use(plan.programs[0])
        .at_peak[static_cast<std::size_t>(BufferCategory::optimizer)]
        .count();
  };
  const std::int64_t all = states(layout);
  layout.freeze_vision_model = true;
  const auto frozen = runs_of(test::checked_plan(model, layout).programs[0], Pass::backward);
  CHECK(frozen.count("vision.attention") == 0);
  CHECK(frozen.at("vision.projector_1.weight_gradient") == 2);
  CHECK(frozen.at("vision.deepstack_up.weight_gradient") == 2);
  const std::int64_t each = layout.zero_stage == 0 ? 12 : 6;  // two ranks share a copy
  const std::int64_t layers = encoder.parameters() - encoder.output.parameters();
  CHECK(all - states(layout) == Approx(each * layers).epsilon(0.01));
  layout.freeze_vision_projection = true;
  CHECK(all - states(layout) == Approx(each * encoder.parameters()).epsilon(0.01));
  const auto none = runs_of(test::checked_plan(model, layout).programs[0], Pass::backward);
  for (const auto& [name, times] : none)
    CHECK_FALSE(name.starts_with("vision."));
}

TEST_CASE("plans with an encoder are sound", "[plan][vision]") {
  const Model model = with_encoder(GENERATE(0, 1, 2));
  Layout layout = with_images(GENERATE(1, 2), 2, GENERATE(1, 2), 4);
  layout.sequence_parallel = layout.tensor_parallel > 1 && GENERATE(false, true);
  layout.zero_stage = GENERATE(0, 2, 3);
  layout.recompute = GENERATE(Recompute::none, Recompute::full, Recompute::selective);
  layout.freeze_vision_model = GENERATE(false, true);
  if (layout.pipeline_parallel > 1 && layout.zero_stage == 2) layout.zero_stage = 1;
  CAPTURE(layout.tensor_parallel, layout.pipeline_parallel, layout.zero_stage,
          layout.sequence_parallel, layout.freeze_vision_model);
  test::checked_plan(model, layout);
}

TEST_CASE("zero-bubble schedules and context parallelism go with an encoder", "[plan][vision]") {
  const Model model = with_encoder();
  Layout layout = with_images(1, 1, 2, 4);
  layout.schedule = Schedule::zb_h1;
  layout.freeze_vision_model = GENERATE(false, true);
  test::checked_plan(model, layout);
  layout.schedule = Schedule::one_f_one_b;
  layout.context_parallel = 2;
  const Plan plan = test::checked_plan(model, layout);
  CHECK(runs_of(plan.programs[0], Pass::forward).at("vision.attention") == 4 * 3);
}

TEST_CASE("without images a model with an encoder has the plan of its language model",
          "[plan][vision]") {
  Model language = with_encoder();
  leave_out_vision(language);
  const Layout layout = test::layout_for(1, 2, 1, 2);
  CHECK(test::digest_of(make_plan(language, layout).programs) ==
        test::digest_of(make_plan(test::transformer(1), layout).programs));
}

TEST_CASE("a vision encoder that a layout cannot have is refused", "[plan][vision]") {
  const auto first = [](const Model& model, const auto& change) {
    Layout layout = with_images(1, 2, 1, 2);
    change(layout);
    const auto problems = layout_problems(layout, model);
    return problems.empty() ? std::string{"none"}
                            : std::string{problems.front().key} + ": " + problems.front().what;
  };
  const Model model = with_encoder();
  CHECK(first(model, [](Layout&) {}) == "none");
  CHECK(first(test::transformer(1), [](Layout&) {}) ==
        "images: images is 3, but " + test::transformer(1).name +
            " has no vision encoder; allowed: 0");
  CHECK(first(model, [](Layout& l) { l.image_tokens = 0; }) ==
        "image_tokens: image_tokens is 0, and the encoder of " + model.name +
            " takes images of any size; allowed: 1 or more");
  CHECK(first(model, [](Layout& l) { l.image_tokens = 60; }) ==
        "images: images is 3, of 60 tokens each; a sequence has 128 tokens; allowed: up to 2");
  CHECK(first(model, [](Layout& l) { l.images = 0; }) ==
        "image_tokens: image_tokens goes with images, which is 0");
  CHECK(first(model, [](Layout& l) { l.freeze_vision_projection = true; }) ==
        "freeze_vision_projection: freeze_vision_projection is true and freeze_vision_model "
        "false: gradients through a frozen projector are not modelled; allowed: false");
  CHECK(first(model, [](Layout& l) { l.optimizer = OptimizerKind::muon; }) ==
        "optimizer: optimizer muon: not modelled with images");
  CHECK(first(model, [](Layout& l) {
          l.lora_rank = 8;
          l.freeze_vision_model = true;
        }) == "freeze_vision_model: adapters are trained beside a vision encoder that is; allowed "
              "with lora: freeze_vision_model true and freeze_vision_projection true");
}
