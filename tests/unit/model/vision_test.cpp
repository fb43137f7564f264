// Vision encoders in front of language models.
#include <string>

#include "sim/config/reader.hpp"
#include "sim/model/transformer.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"

using namespace sim;

namespace {

Model read_config(const std::string& json) {
  return read_model(Document::parse_json(json, "a/config.json"));
}

Model shipped_with_vision(const std::string& name) {
  return load_model(test::source_dir() + "/models/" + name + ".yaml");
}

std::string problem_of(const std::string& yaml) {
  try {
    static_cast<void>(read_model(Document::parse_yaml(yaml, "a.yaml")));
  } catch (const InputError& error) {
    return error.problems().front().what;
  }
  return "none";
}

// config.json of Qwen/Qwen2.5-VL-7B-Instruct: the keys of the language model stand at the top.
const std::string qwen2_5_vl = R"({"architectures": ["Qwen2_5_VLForConditionalGeneration"],
    "model_type": "qwen2_5_vl", "hidden_size": 3584, "intermediate_size": 18944,
    "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
    "max_position_embeddings": 128000, "tie_word_embeddings": false, "vocab_size": 152064,
    "vision_config": {"depth": 32, "hidden_act": "silu", "hidden_size": 1280,
    "intermediate_size": 3420, "num_heads": 16, "in_chans": 3, "out_hidden_size": 3584,
    "patch_size": 14, "spatial_merge_size": 2, "spatial_patch_size": 14, "window_size": 112,
    "fullatt_block_indexes": [7, 15, 23, 31], "temporal_patch_size": 2}})";

// Of Qwen/Qwen3-VL-8B-Instruct and -30B-A3B-Instruct.
std::string qwen3_vl(const std::string& type, const std::string& text, int out) {
  return R"({"model_type": ")" + type + R"(", "tie_word_embeddings": false, "text_config": )" +
         text + R"(, "vision_config": {"deepstack_visual_indexes": [8, 16, 24], "depth": 27,
      "hidden_act": "gelu_pytorch_tanh", "hidden_size": 1152, "in_channels": 3,
      "intermediate_size": 4304, "num_heads": 16, "num_position_embeddings": 2304, "patch_size": 16,
      "spatial_merge_size": 2, "temporal_patch_size": 2, "out_hidden_size": )" +
         std::to_string(out) + "}}";
}

const std::string qwen3_8b = R"({"model_type": "qwen3_vl_text", "head_dim": 128,
    "hidden_size": 4096, "intermediate_size": 12288, "max_position_embeddings": 262144,
    "num_attention_heads": 32, "num_hidden_layers": 36, "num_key_value_heads": 8,
    "vocab_size": 151936})";
const std::string qwen3_30b = R"({"model_type": "qwen3_vl_moe_text", "head_dim": 128,
    "hidden_size": 2048, "intermediate_size": 6144, "moe_intermediate_size": 768,
    "num_experts": 128, "num_experts_per_tok": 8, "max_position_embeddings": 262144,
    "num_attention_heads": 32, "num_hidden_layers": 48, "num_key_value_heads": 4,
    "vocab_size": 151936})";

// Of google/gemma-3-4b-it.
const std::string gemma_3_4b = R"({"model_type": "gemma3", "mm_tokens_per_image": 256,
    "text_config": {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240,
    "num_hidden_layers": 34, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
    "vocab_size": 262208, "sliding_window": 1024},
    "vision_config": {"hidden_size": 1152, "image_size": 896, "intermediate_size": 4304,
    "model_type": "siglip_vision_model", "num_attention_heads": 16, "num_hidden_layers": 27,
    "patch_size": 14, "vision_use_head": false}})";

// Of llava-hf/llava-1.5-7b-hf.
const std::string llava_7b = R"({"model_type": "llava", "text_config": {"model_type": "llama",
    "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
    "num_attention_heads": 32, "vocab_size": 32064, "max_position_embeddings": 4096},
    "vision_config": {"hidden_size": 1024, "image_size": 336, "intermediate_size": 4096,
    "model_type": "clip_vision_model", "num_attention_heads": 16, "num_hidden_layers": 24,
    "patch_size": 14, "projection_dim": 768, "vocab_size": 32000}})";

const std::string small = R"(source: made up
transformer:
  layers: 2
  hidden: 64
  heads: 4
  feed_forward: 128
  vocabulary: 1000
  norm: rms
  activation: swiglu
  positions: rotary
  biases: none
)";

}  // namespace

// Numbers of parameters in model.safetensors.index.json of each on the Hugging Face Hub.
TEST_CASE("models with a vision encoder have the published number of parameters", "[model]") {
  CHECK(read_config(qwen2_5_vl).parameters() == 8'292'166'656);
  CHECK(read_config(qwen3_vl("qwen3_vl", qwen3_8b, 4096)).parameters() == 8'767'123'696);
  CHECK(read_config(qwen3_vl("qwen3_vl_moe", qwen3_30b, 2048)).parameters() == 31'070'754'032);
  CHECK(read_config(gemma_3_4b).parameters() == 4'300'079'472);
  CHECK(read_config(llava_7b).parameters() == 7'063'427'072);
  // NVIDIA Megatron-Bridge's count of Qwen3.8-27B, without a depth of multi-token prediction.
  CHECK(shipped_with_vision("qwen3.8-27b-vl").parameters() == 27'781'427'952 - 424'699'392);
}

// transformers' Llama4VisionModel and Llama4MultiModalProjector: models/llama-4-scout.yaml.
TEST_CASE("Llama 4's encoder has the parameters of its classes", "[model]") {
  const Model model = read_config(R"({"model_type": "llama4", "text_config": {
      "model_type": "llama4_text", "hidden_size": 5120, "intermediate_size": 8192,
      "intermediate_size_mlp": 16384, "num_hidden_layers": 4, "num_attention_heads": 40,
      "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 202048, "num_local_experts": 16,
      "num_experts_per_tok": 1, "interleave_moe_layer_step": 1},
      "vision_config": {"hidden_size": 1408, "image_size": 336, "intermediate_size": 5632,
      "num_attention_heads": 16, "num_hidden_layers": 34, "patch_size": 14,
      "pixel_shuffle_ratio": 0.5, "projector_input_dim": 4096, "projector_output_dim": 4096}})");
  REQUIRE(model.has_vision());
  CHECK(model.vision.front().parameters() == 871'932'416);
  CHECK(model.shape->vision.tokens_of_image() == 144);
  CHECK(model.shape->vision.patches_of(144) == 577);
}

TEST_CASE("shipped models with an encoder are those of their config.json", "[model]") {
  const auto same = [](const Model& file, const Model& json) {
    TransformerShape shape = *json.shape;
    shape.name = file.shape->name;
    shape.source = file.shape->source;
    CHECK(*file.shape == shape);
  };
  same(shipped_with_vision("qwen2.5-vl-7b"), read_config(qwen2_5_vl));
  same(shipped_with_vision("qwen3-vl-8b"),
       [] {
         Model json = read_config(qwen3_vl("qwen3_vl", qwen3_8b, 4096));
         json.shape->family = "qwen3_vl";  // text_config has a name of its own
         return json;
       }());
}

TEST_CASE("an encoder goes into a model file of ours and back", "[model]") {
  for (const std::string& json :
       {qwen2_5_vl, qwen3_vl("qwen3_vl", qwen3_8b, 4096), gemma_3_4b, llava_7b}) {
    const Model model = read_config(json);
    const std::string yaml = transformer_yaml(*model.shape, 0);
    CAPTURE(yaml);
    const Model again = read_model(Document::parse_yaml(yaml, "again.yaml"));
    REQUIRE(again.shape == model.shape);
    CHECK(again.vision == model.vision);
  }
}

TEST_CASE("windows of an encoder are pieces of the image in all layers but some", "[model]") {
  const Model model = read_config(qwen2_5_vl);
  int in_windows = 0;
  for (const Block& layer : model.vision.front().layers)
    for (const ModelOp& op : layer.ops)
      if (op.kind == ModelOpKind::attention) in_windows += op.piece == 64 ? 1 : 0;
  CHECK(in_windows == 28);
}

TEST_CASE("a model without its encoder is the language model", "[model]") {
  Model model = shipped_with_vision("qwen3-vl-8b");
  leave_out_vision(model);
  const Model language = shipped_with_vision("qwen3-8b");
  CHECK(model.parameters() == language.parameters());
  CHECK(model.input == language.input);
  REQUIRE(model.notes.size() == 1);
  CHECK(model.notes[0] ==
        "layout.images is 0: text alone; neither parameters nor time of the vision encoder are in "
        "the forecast");
}

TEST_CASE("what is wrong with an encoder is told", "[model]") {
  const auto with = [&](const std::string& vision, const std::string& projector) {
    return small + "  vision: {layers: 2, hidden: 96, feed_forward: 64, norm: layer, " +
           "activation: gelu, patch: 14, " + vision + "}\n  projector: {" + projector + "}\n";
  };
  CHECK(problem_of(with("heads: 4", "merge: 2")) == "none");
  CHECK(problem_of(with("heads: 5", "merge: 2")) ==
        "5 heads do not divide the 96 features of the vision encoder");
  CHECK(problem_of(with("heads: 4, image_size: 42", "merge: 2")) ==
        "an image of 42 pixels is no multiple of 28, the edge of the patches that become a token");
  CHECK(problem_of(with("heads: 4", "deepstack: 1")) ==
        "\"deepstack\" goes with \"norm\" and without \"pools\"");
  CHECK(problem_of(with("heads: 4, class_token: true", "merge: 1")) ==
        "\"class_token\" goes with \"positions\", a table that it is in");
  CHECK(problem_of(with("heads: 4, full_attention: [1]", "merge: 1")) ==
        "\"full_attention\" goes with \"window\", which is absent");
  CHECK(problem_of(small + "  projector: {merge: 2}\n") == "\"projector\" goes with \"vision\"");
}
