// Parameters by name and shape, and the rectangles of them that tensor ranks hold.
#include "real/engine/parameters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/model/transformer.hpp"
#include "tests/catch.hpp"

namespace real::test {
namespace {

using Lines = std::vector<std::string>;

sim::TransformerShape llama_shape() {
  sim::TransformerShape shape;
  shape.name = "tiny";
  shape.layers = 1;
  shape.hidden = 16;
  shape.heads = 4;
  shape.kv_heads = 2;
  shape.head_dim = 4;
  shape.feed_forward = 8;
  shape.vocabulary = 256;
  shape.norm = sim::NormKind::rms;
  shape.activation = sim::Activation::swiglu;
  shape.positions = sim::Positions::rotary;
  return shape;
}

sim::Layout tensor_layout(int tensor) {
  sim::Layout layout;
  layout.tensor_parallel = tensor;
  layout.sequence_length = 8;
  layout.global_batch = 1;
  layout.compute_dtype = layout.activation_dtype = sim::DType::fp32;
  layout.gradient_dtype = layout.reduce_dtype = sim::DType::fp32;
  return layout;
}

// "name rows x columns"
Lines shapes_of(const sim::Model& model) {
  Lines lines;
  for (const Parameter& parameter : parameters_of(model))
    lines.push_back(fmt::format("{} {} x {}", parameter.name, parameter.rows, parameter.columns));
  return lines;
}

// "rows a+n, columns b+m" of the pieces that a rank holds of a parameter.
Lines pieces(const sim::Model& model, const sim::Layout& layout, std::uint32_t rank,
             const std::string& name) {
  REQUIRE(sim::layout_problems(layout, model).empty());
  const sim::Plan plan = sim::make_plan(model, layout);
  const BoundProgram bound = bind(plan, model, sim::RankId{rank});
  const std::vector<Parameter> parameters = parameters_of(model);
  Lines lines;
  for (const Piece& piece : pieces_of(bound, parameters)) {
    if (parameters[piece.parameter].name == name)
      lines.push_back(fmt::format("rows {}+{}, columns {}+{}", piece.row, piece.rows, piece.column,
                                  piece.columns));
  }
  return lines;
}

}  // namespace

TEST_CASE("parameters of a Llama", "[parameters]") {
  CHECK(shapes_of(sim::build_transformer(llama_shape())) ==
        Lines{"embedding.weight 256 x 16", "layers.0.input_norm.weight 16 x 1",
              "layers.0.qkv.weight 32 x 16", "layers.0.attention_projection.weight 16 x 16",
              "layers.0.post_attention_norm.weight 16 x 1", "layers.0.mlp_up.weight 16 x 16",
              "layers.0.mlp_down.weight 16 x 8", "final_norm.weight 16 x 1",
              "head.weight 256 x 16"});
}

TEST_CASE("projections into the residual stream start smaller", "[parameters]") {
  // GPT-2: 0.02, and over sqrt(2 layers) where a branch ends.
  sim::TransformerShape shape = llama_shape();
  shape.layers = 8;
  for (const Parameter& parameter : parameters_of(sim::build_transformer(shape))) {
    CAPTURE(parameter.name);
    const bool ends = parameter.name.find("projection") != std::string::npos ||
                      parameter.name.find("mlp_down") != std::string::npos;
    const bool norm = parameter.columns == 1;
    CHECK(parameter.initial == (norm ? InitialValues::ones : InitialValues::normal));
    if (!norm) CHECK_THAT(parameter.deviation, WithinRel(ends ? 0.02 / 4 : 0.02, 1e-12));
  }
}

TEST_CASE("tensor ranks hold queries, keys and values, gate and up, each by itself",
          "[parameters]") {
  const sim::Model model = sim::build_transformer(llama_shape());
  // 16 rows of queries, 8 of keys, 8 of values; rank 1 of 2.
  CHECK(pieces(model, tensor_layout(2), 1, "layers.0.qkv.weight") ==
        Lines{"rows 8+8, columns 0+16", "rows 20+4, columns 0+16", "rows 28+4, columns 0+16"});
  CHECK(pieces(model, tensor_layout(2), 1, "layers.0.mlp_up.weight") ==
        Lines{"rows 4+4, columns 0+16", "rows 12+4, columns 0+16"});
  CHECK(pieces(model, tensor_layout(2), 1, "layers.0.mlp_down.weight") ==
        Lines{"rows 0+16, columns 4+4"});
  CHECK(pieces(model, tensor_layout(2), 1, "layers.0.post_attention_norm.weight") ==
        Lines{"rows 0+16, columns 0+1"});
}

TEST_CASE("the experts of a layer are one parameter, of which a rank holds some matrices",
          "[parameters][experts]") {
  sim::TransformerShape shape = llama_shape();
  shape.experts = {.count = 4, .per_token = 2, .feed_forward = 8};
  const sim::Model model = sim::build_transformer(shape);
  const Lines all = shapes_of(model);
  for (const char* line : {"layers.0.router.weight 4 x 16", "layers.0.expert_up.weight 64 x 16",
                           "layers.0.expert_down.weight 64 x 8"})
    CHECK(std::find(all.begin(), all.end(), line) != all.end());
  // Rank 3 of tp 2 x dp 2: the second half of the features of the last two experts.
  sim::Layout layout = tensor_layout(2);
  layout.sequence_parallel = true;
  layout.data_parallel = layout.expert_parallel = layout.expert_tensor_parallel = 2;
  layout.global_batch = 2;
  CHECK(pieces(model, layout, 3, "layers.0.expert_up.weight") ==
        Lines{"rows 36+4, columns 0+16", "rows 44+4, columns 0+16", "rows 52+4, columns 0+16",
              "rows 60+4, columns 0+16"});
  CHECK(pieces(model, layout, 3, "layers.0.expert_down.weight") ==
        Lines{"rows 32+16, columns 4+4", "rows 48+16, columns 4+4"});
  CHECK(pieces(model, layout, 3, "layers.0.router.weight") == Lines{"rows 0+4, columns 0+16"});
  // Experts over tensor ranks: one each, whole.
  layout.expert_parallel = 4;
  layout.expert_tensor_parallel = 1;
  CHECK(pieces(model, layout, 1, "layers.0.expert_up.weight") ==
        Lines{"rows 16+8, columns 0+16", "rows 24+8, columns 0+16"});
}

TEST_CASE("the padding of a vocabulary is no parameter", "[parameters]") {
  // 200 tokens on 2 ranks: padded to 256, 128 rows each, of which the last 56 are padding.
  sim::TransformerShape shape = llama_shape();
  shape.vocabulary = 200;
  const sim::Model model = sim::build_transformer(shape);
  for (const char* name : {"embedding.weight", "head.weight"}) {
    CHECK(pieces(model, tensor_layout(2), 0, name) == Lines{"rows 0+128, columns 0+16"});
    CHECK(pieces(model, tensor_layout(2), 1, name) == Lines{"rows 128+72, columns 0+16"});
  }
}

TEST_CASE("a matrix with as many rows as the vocabulary is not padded", "[parameters]") {
  // 256 tokens on 4 ranks are padded to 512: ranks 2 and 3 hold none of the table. The feed-forward
  // matrix of 256 rows is split evenly.
  sim::TransformerShape shape = llama_shape();
  shape.kv_heads = 4;
  shape.activation = sim::Activation::gelu;
  shape.feed_forward = 256;
  shape.mlp_bias = true;
  const sim::Model model = sim::build_transformer(shape);
  CHECK(pieces(model, tensor_layout(4), 3, "layers.0.mlp_up.weight") ==
        Lines{"rows 192+64, columns 0+16"});
  CHECK(pieces(model, tensor_layout(4), 3, "layers.0.mlp_up.bias") ==
        Lines{"rows 192+64, columns 0+1"});
  CHECK(pieces(model, tensor_layout(4), 1, "head.weight") == Lines{"rows 128+128, columns 0+16"});
  CHECK(pieces(model, tensor_layout(4), 3, "head.weight").empty());
}

}  // namespace real::test
