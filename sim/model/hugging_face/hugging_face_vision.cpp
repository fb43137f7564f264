// The vision encoder in a config.json: vision_config, or what its class has where the file is
// silent. transformers, models/*/configuration_*.py and modeling_*.py of each family.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>

#include "sim/model/hugging_face/hugging_face_fields.hpp"
#include "sim/model/vision_file.hpp"

namespace sim {
namespace {

using Fields = HuggingFaceFields;
namespace limits = transformer_limits;

std::int64_t square(std::int64_t edge) {
  return edge * edge;
}

void read_sizes_of_vision(const Fields& fields, VisionEncoder& vision) {
  vision.layers = fields.size({"num_hidden_layers", "depth"}, limits::layers);
  vision.hidden = fields.size({"hidden_size"}, limits::hidden);
  vision.heads = fields.size({"num_attention_heads", "num_heads"}, limits::heads);
  vision.feed_forward = fields.size({"intermediate_size"}, limits::feed_forward);
}

void read_patches_of_qwen(const Fields& fields, std::int64_t patch, VisionEncoder& vision) {
  vision.patch = fields.size_or({"patch_size"}, patch, limits::pixels);
  vision.frames = fields.size_or({"temporal_patch_size"}, 2, 64);
  vision.channels = fields.size_or({"in_channels", "in_chans"}, 3, 1024);
  vision.rotary = true;
  vision.projector.merge = fields.size_or({"spatial_merge_size"}, 2, 64);
}

// A norm of each patch, two linears of those that become a token.
void set_merger(NormKind norm, VisionEncoder& vision) {
  vision.projector.norm = norm;
  vision.projector.widths = {vision.merged() * vision.hidden};
}

// Qwen2VLVisionConfig: hidden_size is the language model's.
void read_qwen2_vl(const Fields& fields, VisionEncoder& vision) {
  vision.layers = fields.size({"depth"}, limits::layers);
  vision.hidden = fields.size({"embed_dim"}, limits::hidden);
  vision.heads = fields.size({"num_heads"}, limits::heads);
  vision.feed_forward = fields.size_or({"mlp_ratio"}, 4, 64) * vision.hidden;
  read_patches_of_qwen(fields, 14, vision);
  set_merger(NormKind::layer, vision);
}

void read_qwen2_5_vl(const Fields& fields, VisionEncoder& vision) {
  read_sizes_of_vision(fields, vision);
  vision.norm = NormKind::rms;
  vision.activation = Activation::swiglu;
  read_patches_of_qwen(fields, 14, vision);
  vision.window = square(fields.size_or({"window_size"}, 112, limits::pixels) / vision.patch);
  vision.full_attention.layers = {7, 15, 23, 31};
  std::erase_if(vision.full_attention.layers,
                [&](std::int64_t layer) { return layer >= vision.layers; });
  if (fields.in().has("fullatt_block_indexes")) {
    vision.full_attention.layers.clear();
    for (const ValueReader& layer : fields.in().list("fullatt_block_indexes"))
      vision.full_attention.layers.push_back(layer.integer({.min = 0, .max = vision.layers - 1}));
    std::ranges::sort(vision.full_attention.layers);
  }
  set_merger(NormKind::rms, vision);
}

void read_qwen3_vl(const Fields& fields, VisionEncoder& vision) {
  read_sizes_of_vision(fields, vision);
  vision.patch_bias = true;
  read_patches_of_qwen(fields, 16, vision);
  vision.positions = fields.size_or({"num_position_embeddings"}, 2304, limits::rows);
  set_merger(NormKind::layer, vision);
  if (fields.in().has("deepstack_visual_indexes"))
    vision.projector.deepstack =
        static_cast<std::int64_t>(fields.in().list("deepstack_visual_indexes").size());
}

void read_square_image(const Fields& fields, std::int64_t size, std::int64_t patch,
                       VisionEncoder& vision) {
  vision.image_size = fields.size_or({"image_size"}, size, limits::pixels);
  vision.patch = fields.size_or({"patch_size"}, patch, limits::pixels);
  vision.channels = fields.size_or({"num_channels"}, 3, 1024);
  vision.positions = square(vision.image_size / vision.patch);
}

// SiglipVisionModel; the mean of as many patches as make 16 x 16 tokens (mm_tokens_per_image).
void read_gemma3_vision(const Fields& fields, VisionEncoder& vision) {
  read_sizes_of_vision(fields, vision);
  read_square_image(fields, 896, 14, vision);
  vision.patch_bias = vision.norm_behind = true;
  vision.projector = {.merge = vision.image_size / vision.patch / 16,
                      .pools = true,
                      .norm = NormKind::rms,
                      .biases = false};
}

// Its table of positions, and the class token, are of one row more.
void read_class_token(VisionEncoder& vision) {
  vision.class_token = true;
  ++vision.positions;
}

// Llama4VisionModel, and Llama4MultiModalProjector behind its own two linears.
void read_llama4_vision(const Fields& fields, VisionEncoder& vision) {
  read_sizes_of_vision(fields, vision);
  read_square_image(fields, 448, 14, vision);
  read_class_token(vision);
  vision.rotary = vision.norm_before = vision.norm_behind = true;
  const std::int64_t wide = fields.size_or({"projector_input_dim"}, 4096, limits::feed_forward);
  const std::int64_t out = fields.size_or({"projector_output_dim"}, 4096, limits::feed_forward);
  const double ratio =
      fields.in().real_or("pixel_shuffle_ratio", 0.5, {.min = 1.0 / 64, .max = 1});
  vision.projector = {.merge = std::llround(1 / ratio),
                      .has_norm = false,
                      .widths = {wide, out},
                      .biases = false};
}

// CLIPVisionModel, and two linears.
void read_llava_vision(const Fields& fields, std::int64_t hidden, VisionEncoder& vision) {
  read_sizes_of_vision(fields, vision);
  read_square_image(fields, 336, 14, vision);
  read_class_token(vision);
  vision.norm_before = vision.norm_behind = true;
  vision.projector = {.has_norm = false, .widths = {hidden}};
}

// MoonViT (moonshotai/Kimi-VL-A3B-Instruct, modeling_kimi_vl.py).
void read_moonvit(const Fields& fields, VisionEncoder& vision) {
  read_sizes_of_vision(fields, vision);
  vision.patch = fields.size_or({"patch_size"}, 14, limits::pixels);
  vision.positions = fields.size_or({"init_pos_emb_height"}, 64, limits::pixels) *
                     fields.size_or({"init_pos_emb_width"}, 64, limits::pixels);
  vision.patch_bias = vision.rotary = vision.norm_behind = true;
  vision.projector.merge = 2;
  set_merger(NormKind::layer, vision);
}

enum class Encoder : std::uint8_t { qwen2_vl, qwen2_5_vl, qwen3_vl, gemma3, llama4, llava, moonvit };
struct EncoderOf {
  std::string_view model_type;
  Encoder encoder;
};
constexpr std::array encoders{EncoderOf{"qwen2_vl", Encoder::qwen2_vl},
                              EncoderOf{"qwen2_5_vl", Encoder::qwen2_5_vl},
                              EncoderOf{"qwen3_vl", Encoder::qwen3_vl},
                              EncoderOf{"qwen3_vl_moe", Encoder::qwen3_vl},
                              EncoderOf{"qwen3_5", Encoder::qwen3_vl},
                              EncoderOf{"qwen3_5_moe", Encoder::qwen3_vl},
                              EncoderOf{"gemma3", Encoder::gemma3},
                              EncoderOf{"llama4", Encoder::llama4},
                              EncoderOf{"llava", Encoder::llava},
                              EncoderOf{"kimi_vl", Encoder::moonvit}};

std::optional<Encoder> encoder_of(const ObjectReader& root) {
  if (!root.has("model_type") || !root.has("vision_config")) return std::nullopt;
  const std::optional<std::string> type = root.at("model_type").peek_text();
  for (const EncoderOf& known : encoders)
    if (type == known.model_type) return known.encoder;
  return std::nullopt;
}

}  // namespace

bool reads_vision(const ObjectReader& root) {
  if (!encoder_of(root) || !root.at("vision_config").is_object()) return false;
  const ObjectReader in = root.object("vision_config");
  in.ignore_unknown();
  return (in.has("depth") || in.has("num_hidden_layers")) && in.has("hidden_size");
}

void read_hugging_face_vision(const ObjectReader& root, TransformerShape& shape) {
  if (!reads_vision(root)) return;
  const ObjectReader in = root.object("vision_config");
  in.ignore_unknown();
  const Fields fields{in};
  VisionEncoder& vision = shape.vision;
  switch (*encoder_of(root)) {
    case Encoder::qwen2_vl:
      read_qwen2_vl(fields, vision);
      break;
    case Encoder::qwen2_5_vl:
      read_qwen2_5_vl(fields, vision);
      break;
    case Encoder::qwen3_vl:
      read_qwen3_vl(fields, vision);
      break;
    case Encoder::gemma3:
      read_gemma3_vision(fields, vision);
      break;
    case Encoder::llama4:
      read_llama4_vision(fields, vision);
      break;
    case Encoder::llava:
      read_llava_vision(fields, shape.hidden, vision);
      break;
    case Encoder::moonvit:
      read_moonvit(fields, vision);
      break;
  }
  vision.projector.merge = std::max<std::int64_t>(1, vision.projector.merge);
  const char* heads = in.has("num_heads") ? "num_heads" : "num_attention_heads";
  check_encoder(in, vision, {.heads = heads, .size = "image_size"});
}

}  // namespace sim
