#include "shapes.hpp"
#include "tests/catch.hpp"

using namespace sim;

TEST_CASE("GPT FLOPs equal the formula of Narayanan et al. 2021", "[model]") {
  // Forward and backward of B sequences: 72 B s L h^2 (1 + s / (6 h) + V / (12 h L)); the backward
  // pass does twice the forward's work, so the forward pass does a third. Derivation per token and
  // layer: Q, K, V 6 h^2, projection 2 h^2, MLP 16 h^2, attention 4 s h; head 2 h V.
  const auto [layers, h, a, s, v] =
      GENERATE(std::array<std::int64_t, 5>{96, 12'288, 96, 2'048, 51'200},
               std::array<std::int64_t, 5>{24, 2'304, 24, 2'048, 51'200},
               std::array<std::int64_t, 5>{12, 768, 12, 1'024, 50'257});
  const Model model = build_transformer(classic_gpt(layers, h, a, v, s));
  const auto width = static_cast<double>(h);
  const auto depth = static_cast<double>(layers);
  const auto tokens = static_cast<double>(s);
  const double formula =
      72 * tokens * depth * width * width *
      (1 + tokens / (6 * width) + static_cast<double>(v) / (12 * width * depth)) / 3;
  CAPTURE(layers, h, a, s, v);
  REQUIRE_THAT(forward_flops(model, s).count(), WithinRel(formula, 1e-12));
}

TEST_CASE("attention FLOPs follow the heads of the queries, not of the keys", "[model]") {
  // 4 * s * heads * head_dim per token, whatever kv_heads is.
  const Model many = build_transformer(llama(1, 4'096, 32, 32, 14'336));
  const Model few = build_transformer(llama(1, 4'096, 32, 8, 14'336));
  const double s = 8'192;
  // The fused qkv loses 2 * 24 key/value heads of 128 outputs.
  const double qkv_difference = 2.0 * 4'096 * (2 * 24 * 128) * s;
  REQUIRE(forward_flops(many, 8'192).count() - forward_flops(few, 8'192).count() == qkv_difference);
}

TEST_CASE("an operator on one token of a sequence counts once per sequence", "[model]") {
  TransformerShape shape = classic_gpt(1, 768, 12, 30'522, 512);
  shape.head = Head::none;
  shape.tied_head = false;
  const Model without = build_transformer(shape);
  shape.head = Head::pooler;
  const Model with = build_transformer(shape);
  REQUIRE(forward_flops(with, 512).count() - forward_flops(without, 512).count() ==
          2.0 * 768 * 768);
}
