// Traffic, launches and saved tensors of eager kernels, derived again from the definitions: every
// read and write of a tensor of `w` features costs w elements at 16 bit and 2 w as fp32.
#include "sim/framework/framework.hpp"

#include "tests/catch.hpp"
#include "tests/unit/model/shapes.hpp"

using namespace sim;

namespace {

constexpr std::int64_t h = 4096, heads = 32, kv_heads = 8, ffn = 14'336;

Model eager(Model model) {
  run_with(framework_of(FrameworkName::pytorch), model);
  return model;
}

Model llama_layer(const Framework& framework) {
  Model model = build_transformer(llama(1, h, heads, kv_heads, ffn));
  run_with(framework, model);
  return model;
}

const ModelOp& first_of(const Block& block, Function function) {
  for (const ModelOp& op : block.ops)
    if (op.function == function) return op;
  throw std::out_of_range("no such operator");
}

// fp32 tensors count twice: r(x) and w(x) of 16 bit are 1, of fp32 2.
constexpr double half = 1, full = 2;

}  // namespace

TEST_CASE("an eager RMSNorm is six kernels over the features and two over tokens", "[model]") {
  const Model model = eager(build_transformer(llama(1, h, heads, kv_heads, ffn)));
  const ModelOp& norm = first_of(model.layers[0], Function::rms_norm);
  const double cast = half + full, square = full + full, mean = full, product = full + full,
               back = full + half, scale = half + half;
  CHECK(norm.forward_elements == (cast + square + mean + product + back + scale) * h);
  CHECK(norm.forward_launches == 6 + 2);
  CHECK(norm.saved_elements == (full + half) * h);  // x in fp32, the normalised x
}

TEST_CASE("eager norms of heads are two, over all queries and all keys", "[model]") {
  TransformerShape shape = llama(1, h, heads, kv_heads, ffn);
  shape.qk_norm = true;
  const Model model = eager(build_transformer(shape));
  const auto norm_of = [&](std::string_view name) {
    return *std::ranges::find(model.layers[0].ops, name, &ModelOp::name);
  };
  const ModelOp &whole = norm_of("input_norm"), heads_alone = norm_of("qk_norm");
  const std::int64_t normalised = (heads + kv_heads) * (h / heads);
  const double widths = static_cast<double>(normalised) / h;
  CHECK_THAT(heads_alone.forward_elements, WithinRel(widths * whole.forward_elements, 1e-12));
  CHECK_THAT(heads_alone.saved_elements, WithinRel(widths * whole.saved_elements, 1e-12));
  CHECK(heads_alone.forward_launches == 2 * whole.forward_launches);
  Model compiled = build_transformer(shape);
  run_with(framework_of(FrameworkName::torchtitan), compiled);
  CHECK(std::ranges::find(compiled.layers[0].ops, "qk_norm", &ModelOp::name)->forward_launches ==
        1);
}

TEST_CASE("transformers has no gradients of a joint linear to put together", "[model]") {
  const Model joint = llama_layer(framework_of(FrameworkName::pytorch));
  const Model apart = llama_layer(framework_of(FrameworkName::transformers));
  const ModelOp& whole = first_of(joint.layers[0], Function::swiglu);
  const ModelOp& halves = first_of(apart.layers[0], Function::swiglu);
  CHECK(whole.backward_elements - halves.backward_elements == 4 * ffn);
  CHECK(apart.execution.separate_products);
}

TEST_CASE("an eager rotary embedding moves queries and keys ten times", "[model]") {
  const Model fused = build_transformer(llama(1, h, heads, kv_heads, ffn));
  const Model model = eager(fused);
  constexpr std::int64_t head = h / heads;
  const double turned = static_cast<double>((heads + kv_heads) * head);
  const double products = 2 * (half + half), negation = 0.5 + 0.5, join = half + half,
               sum = 2 * half + half;
  const double repeated =
      2 * turned;  // repeat_kv: keys and values read, written as wide as queries
  CHECK_THAT(first_of(model.layers[0], Function::rotary).forward_elements,
             WithinRel((products + negation + join + sum) * turned + repeated, 1e-12));
  // The turned tensors are new, beside the projection's output that V keeps alive.
  CHECK(first_of(fused.layers[0], Function::rotary).saved_elements == 0);
  CHECK(first_of(model.layers[0], Function::rotary).saved_elements == turned);
}

TEST_CASE("an eager gate is an activation and a product, each read and written", "[model]") {
  const Model model = eager(build_transformer(llama(1, h, heads, kv_heads, ffn)));
  const ModelOp& gate = first_of(model.layers[0], Function::swiglu);
  CHECK(gate.forward_elements == ((half + half) + (2 * half + half)) * ffn);
  CHECK(gate.backward_elements == (2 * (2 * half + half) + (2 * half + half) + 4 * half) * ffn);
  CHECK(gate.saved_elements == 3 * half * ffn);
  CHECK(gate.forward_launches == 2);
}

TEST_CASE("an eager loss casts the logits to fp32 and takes their log-softmax", "[model]") {
  const Model model = eager(build_transformer(llama(1, h, heads, kv_heads, ffn)));
  const ModelOp& loss = first_of(model.output, Function::cross_entropy);
  const auto classes = static_cast<double>(loss.in_features);
  // A long row is read for its maximum, its sum and its result; backward for a sum and the result.
  CHECK(loss.forward_elements == ((half + full) + (3 * full + full)) * classes);
  CHECK(loss.backward_elements == (full + (full + 2 * full + full) + (full + half)) * classes);
}

TEST_CASE("a loss that keeps its logits reads them, and writes their gradient", "[model]") {
  Framework framework = framework_of(FrameworkName::pytorch);
  framework.loss = LossForm::keeps_logits;
  const Model model = llama_layer(framework);
  const ModelOp& loss = first_of(model.output, Function::cross_entropy);
  const auto classes = static_cast<double>(loss.in_features);
  CHECK(loss.forward_elements == 2 * half * classes);
  CHECK(loss.backward_elements == (half + half) * classes);
  CHECK(loss.saved_fixed_bytes == 0);
  CHECK(model.execution.held_logits == 1);
}

TEST_CASE("metrics compute the loss again, eagerly", "[model]") {
  Framework framework = framework_of(FrameworkName::megatron);
  framework.execution.loss_metrics = 2;
  const Model fused = build_transformer(llama(1, h, heads, kv_heads, ffn));
  const Model model = llama_layer(framework);
  const ModelOp& loss = first_of(model.output, Function::cross_entropy);
  const ModelOp& before = first_of(fused.output, Function::cross_entropy);
  const auto classes = static_cast<double>(loss.in_features);
  CHECK(loss.backward_elements ==
        before.backward_elements + 2 * ((half + full) + (3 * full + full)) * classes);
  CHECK(loss.forward_elements == before.forward_elements);
}

// Per score: the softmax's fp32 output, 4 bytes, and the copy cast to 16 bit, 2, which with dropout
// is the dropped one, and then a mask byte. Fused: 2, or 2 + 1 + 2.
TEST_CASE("an eager softmax keeps its fp32 output and the cast one", "[model]") {
  AttentionShape shape{.heads = 8, .kv_heads = 8, .head_dim = 64};
  const auto per_score = [&shape] {
    return attention_kernel_saved_bytes(shape, false, 1024, 2) / (8.0 * 1024);
  };
  CHECK(per_score() == 2);
  shape.eager_softmax = true;
  CHECK(per_score() == 4 + 2);
  shape.dropout = true;
  CHECK(per_score() == 4 + 1 + 2);
  CHECK(attention_kernel_saved_bytes(shape, true, 1024, 2) == 4.0 * 8);  // flash has no scores
}

TEST_CASE("an eager LayerNorm keeps its one forward kernel", "[model]") {
  const Model model = eager(build_transformer(classic_gpt(1, h, heads, 51'200, 2048)));
  const ModelOp& norm = first_of(model.layers[0], Function::layer_norm);
  CHECK(norm.forward_elements == (half + half) * h);
  CHECK(norm.forward_launches == 1);
  CHECK(norm.backward_launches == 3);
}

TEST_CASE("Megatron-LM changes nothing: the models are built fused", "[model]") {
  const Model fused = build_transformer(llama(2, h, heads, kv_heads, ffn));
  Model same = fused;
  run_with(framework_of(FrameworkName::megatron), same);
  CHECK_FALSE(same.attention.eager_softmax);
  for (std::size_t layer = 0; layer < fused.layers.size(); ++layer) {
    for (std::size_t i = 0; i < fused.layers[layer].ops.size(); ++i) {
      const ModelOp &a = fused.layers[layer].ops[i], &b = same.layers[layer].ops[i];
      CHECK(a.forward_elements == b.forward_elements);
      CHECK(a.backward_elements == b.backward_elements);
      CHECK(a.saved_elements == b.saved_elements);
      CHECK(a.forward_launches == b.forward_launches);
    }
  }
}

TEST_CASE("a recomputation by operators keeps what fused kernels would, and the loss's own",
          "[model]") {
  Framework framework = framework_of(FrameworkName::pytorch);
  framework.keeps_intermediates = false;
  const Model fused = build_transformer(llama(1, h, heads, kv_heads, ffn));
  const Model model = llama_layer(framework);
  for (const Function function : {Function::rms_norm, Function::rotary, Function::swiglu})
    CHECK(first_of(model.layers[0], function).saved_elements ==
          first_of(fused.layers[0], function).saved_elements);
  const ModelOp& loss = first_of(model.output, Function::cross_entropy);
  CHECK(loss.saved_elements == 3 * static_cast<double>(loss.in_features));
}

// Two reads and a write of the logits, then scaled in place.
TEST_CASE("Transformer Engine's loss writes the gradient over the logits", "[model]") {
  Framework framework = framework_of(FrameworkName::megatron);
  framework.loss = LossForm::in_place;
  const Model model = llama_layer(framework);
  const ModelOp& loss = first_of(model.output, Function::cross_entropy);
  const auto classes = static_cast<double>(loss.in_features);
  CHECK(loss.in_place);
  CHECK(loss.forward_elements == 3 * classes);
  CHECK(loss.backward_elements == 2 * classes);
  CHECK(loss.saved_fixed_bytes == 0);
}

// The logits of a chunk; in the backward pass there is nothing to do but for a number.
TEST_CASE("a chunked loss writes the gradient over the logits of a chunk", "[model]") {
  Framework framework = framework_of(FrameworkName::pytorch);
  framework.loss = LossForm::chunked;
  const Model model = llama_layer(framework);
  const ModelOp& loss = first_of(model.output, Function::cross_entropy);
  CHECK(model.execution.chunks_logits);
  CHECK(loss.in_place);
  CHECK(loss.forward_elements == 3 * static_cast<double>(loss.in_features));
  CHECK(loss.backward_elements == 1);
  CHECK(loss.saved_fixed_bytes == 0);
}

// Cast, maximum, subtraction, exponential, sum, division; backward scaling and cast.
TEST_CASE("Megatron-LM's loss without fusion goes over the logits operation by operation",
          "[model]") {
  Framework framework = framework_of(FrameworkName::megatron);
  framework.loss = LossForm::separate;
  const Model model = llama_layer(framework);
  const ModelOp& loss = first_of(model.output, Function::cross_entropy);
  const auto classes = static_cast<double>(loss.in_features);
  CHECK(loss.forward_elements == ((half + full) + full + 3 * 2 * full + full) * classes);
  CHECK(loss.backward_elements == (2 * full + full + half) * classes);
  CHECK(loss.saved_fixed_bytes == 2 * full * classes);
  CHECK(loss.backward_scratch_bytes == 0);
}

TEST_CASE("a single part of a framework may be of the other kind", "[model]") {
  Framework framework = framework_of(FrameworkName::pytorch);
  framework.rms_norm = NormForm::fused;
  const Model fused = build_transformer(llama(1, h, heads, kv_heads, ffn));
  const Model model = llama_layer(framework);
  const auto norm = [](const Model& of) {
    return first_of(of.layers[0], Function::rms_norm).forward_elements;
  };
  CHECK(norm(model) == norm(fused));
  CHECK(model.attention.eager_softmax);
}

TEST_CASE("torchtitan turns complex numbers and repeats keys and values", "[model]") {
  Model model = build_transformer(llama(1, h, heads, kv_heads, ffn));
  const double kept = first_of(model.layers[0], Function::attention).saved_elements;
  run_with(framework_of(FrameworkName::torchtitan), model);
  const ModelOp& rotary = first_of(model.layers[0], Function::rotary);
  constexpr std::int64_t head_dim = h / heads;
  const double head = static_cast<double>(head_dim);
  const double turned = (heads + kv_heads) * head;
  const double cast = half + full, product = full + full, back = full + half;
  const double copies = 2 * kv_heads * head * half + 2 * heads * head * half;
  CHECK_THAT(rotary.forward_elements, WithinRel((cast + product + back) * turned + copies, 1e-12));
  CHECK(rotary.backward_elements == rotary.forward_elements);
  CHECK(first_of(model.layers[0], Function::attention).saved_elements - kept ==
        2 * (heads - kv_heads) * head);
  CHECK(model.execution.context == ContextForm::compiled);
  CHECK(framework_of(FrameworkName::pytorch).execution.context == ContextForm::eager);
  CHECK(framework_of(FrameworkName::megatron).execution.context == ContextForm::transformer_engine);
  CHECK(model.execution.copies_tokens);
  CHECK(model.execution.copies_weights);
  CHECK(model.execution.keeps_gathered_inputs);
  CHECK(model.execution.eight_bit == EightBit::torchao);
}

TEST_CASE("as many key heads as query heads are not repeated", "[model]") {
  Model model = build_transformer(llama(1, h, heads, heads, ffn));
  Model fused = model;
  Framework framework = framework_of(FrameworkName::megatron);
  framework.key_heads = KernelForm::eager;
  run_with(framework, model);
  CHECK(first_of(model.layers[0], Function::rotary).forward_elements ==
        first_of(fused.layers[0], Function::rotary).forward_elements);
}
