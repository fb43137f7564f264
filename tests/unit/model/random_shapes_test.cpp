// Random shapes against closed forms that do not know operators.
#include <random>

#include "shapes.hpp"
#include "tests/catch.hpp"

using namespace sim;

namespace {

TransformerShape random_shape(std::mt19937_64& random) {
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
  };
  TransformerShape shape = llama(pick(1, 6), 8 * pick(1, 64), 1, 1, pick(1, 999));
  shape.kv_heads = pick(1, 4);
  shape.heads = shape.kv_heads * pick(1, 4);
  shape.head_dim = pick(1, 64);
  shape.vocabulary = pick(1, 5'000);
  shape.max_sequence = pick(1, 300);
  shape.norm = pick(0, 1) != 0 ? NormKind::rms : NormKind::layer;
  shape.norm_placement = pick(0, 1) != 0 ? NormPlacement::pre : NormPlacement::post;
  shape.activation = pick(0, 1) != 0 ? Activation::swiglu : Activation::gelu;
  shape.positions = pick(0, 1) != 0 ? Positions::rotary : Positions::learned;
  shape.qkv_bias = pick(0, 1) != 0;
  shape.projection_bias = pick(0, 1) != 0;
  shape.mlp_bias = pick(0, 1) != 0;
  shape.tied_head = pick(0, 1) != 0;
  shape.projection_dropout = pick(0, 1) != 0 ? 0.1 : 0;
  shape.mlp_dropout = pick(0, 1) != 0 ? 0.1 : 0;
  return shape;
}

struct Widths {
  std::int64_t h, q, kv, up, f, norm;
};

Widths widths(const TransformerShape& shape) {
  return {.h = shape.hidden,
          .q = shape.heads * shape.head_dim,
          .kv = shape.kv_heads * shape.head_dim,
          .up = (is_gated(shape.activation) ? 2 : 1) * shape.feed_forward,
          .f = shape.feed_forward,
          .norm = (shape.norm == NormKind::layer ? 2 : 1) * shape.hidden};
}

std::int64_t closed_form_parameters(const TransformerShape& shape) {
  const Widths w = widths(shape);
  std::int64_t layer = w.h * (w.q + 2 * w.kv) + w.q * w.h + w.h * w.up + w.f * w.h + 2 * w.norm;
  if (shape.qkv_bias) layer += w.q + 2 * w.kv;
  if (shape.projection_bias) layer += w.h;
  if (shape.mlp_bias) layer += w.up + w.h;
  std::int64_t sum = shape.layers * layer + shape.vocabulary * w.h * (shape.tied_head ? 1 : 2);
  if (shape.positions == Positions::learned) sum += shape.max_sequence * w.h;
  if (shape.norm_placement == NormPlacement::pre) sum += w.norm;
  return sum;
}

}  // namespace

TEST_CASE("random shapes have the parameters of the closed form", "[model]") {
  const auto seed = GENERATE(range(0, 200));
  CAPTURE(seed);
  std::mt19937_64 random{static_cast<std::uint64_t>(seed)};
  const TransformerShape shape = random_shape(random);
  REQUIRE(build_transformer(shape).parameters() == closed_form_parameters(shape));
}

TEST_CASE("random shapes save what the closed form says, split as the tensors are", "[model]") {
  const auto seed = GENERATE(range(0, 200));
  CAPTURE(seed);
  std::mt19937_64 random{static_cast<std::uint64_t>(seed)};
  const TransformerShape shape = random_shape(random);
  const Widths w = widths(shape);
  const SavedBytes saved = saved_bytes(transformer_layer(shape), {}, true, 128, 2);
  // Outside: two norms' inputs, the inputs of qkv and mlp_up, two masks. Inside: Q, K, V, the
  // projection's input, the activation's input and its product.
  const int masks = (shape.projection_dropout > 0 ? 1 : 0) + (shape.mlp_dropout > 0 ? 1 : 0);
  REQUIRE(saved.sequence == static_cast<double>((2 * 4 + masks) * w.h));
  REQUIRE(saved.inner == static_cast<double>(2 * (2 * w.q + 2 * w.kv + w.up + w.f)));
}

TEST_CASE("FLOPs of random shapes grow by the square of the sequence in attention alone",
          "[model]") {
  const auto seed = GENERATE(range(0, 200));
  CAPTURE(seed);
  std::mt19937_64 random{static_cast<std::uint64_t>(seed)};
  const TransformerShape shape = random_shape(random);
  const Widths w = widths(shape);
  const Model model = build_transformer(shape);
  const std::int64_t s = 64;
  // f(2s) - 2 f(s): all that is linear in s cancels, and of 4 s^2 q per layer 2 * 4 s^2 q remain.
  const double rest = forward_flops(model, 2 * s).count() - 2 * forward_flops(model, s).count();
  REQUIRE(rest == static_cast<double>(shape.layers * 8 * s * s * w.q));
}
