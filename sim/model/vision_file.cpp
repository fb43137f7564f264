#include "sim/model/vision_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/model/layer_sets.hpp"
#include "sim/model/transformer.hpp"

namespace sim {
namespace {

namespace limits = transformer_limits;

constexpr std::int64_t most_merged = 64;
constexpr std::int64_t most_deepstack = 16;

Projector read_projector(const ObjectReader& from) {
  Projector projector;
  projector.merge = from.integer_or("merge", 1, {.min = 1, .max = most_merged});
  projector.pools = from.boolean_or("pools", false);
  projector.has_norm = from.has("norm");
  if (projector.has_norm) projector.norm = from.word<NormKind>("norm");
  if (from.has("widths"))
    for (const ValueReader& width : from.list("widths"))
      projector.widths.push_back(width.integer({.min = 1, .max = limits::feed_forward}));
  projector.biases = from.boolean_or("biases", true);
  projector.deepstack = from.integer_or("deepstack", 0, {.min = 0, .max = most_deepstack});
  if (projector.deepstack > 0 && (projector.pools || !projector.has_norm))
    from.problem("deepstack", "\"deepstack\" goes with \"norm\" and without \"pools\"");
  return projector;
}

void read_patches(const ObjectReader& from, VisionEncoder& vision) {
  const IntegerRange pixels{.min = 1, .max = limits::pixels};
  vision.patch = from.integer("patch", pixels);
  vision.frames = from.integer_or("frames", 1, {.min = 1, .max = 64});
  vision.channels = from.integer_or("channels", 3, {.min = 1, .max = 1024});
  vision.patch_bias = from.boolean_or("patch_bias", false);
  vision.image_size = from.integer_or("image_size", 0, pixels);
  vision.positions = from.integer_or("positions", 0, {.min = 1, .max = limits::rows});
  vision.class_token = from.boolean_or("class_token", false);
  if (vision.class_token && vision.positions == 0)
    from.problem("class_token", "\"class_token\" goes with \"positions\", a table that it is in");
}

void read_attention_of_vision(const ObjectReader& from, VisionEncoder& vision) {
  vision.rotary = from.boolean_or("rotary", false);
  vision.window = from.integer_or("window", 0, {.min = 1, .max = limits::rows});
  vision.full_attention = read_layer_set(from, "full_attention", vision.layers);
  if (vision.window == 0 && !vision.full_attention.empty())
    from.problem("full_attention", "\"full_attention\" goes with \"window\", which is absent");
}

}  // namespace

void check_encoder(const ObjectReader& in, const VisionEncoder& vision, const VisionKeys& keys) {
  if (vision.hidden % vision.heads != 0)
    in.problem(keys.heads, fmt::format("{} heads do not divide the {} features of the vision "
                                       "encoder",
                                       vision.heads, vision.hidden));
  else if (vision.head_dim() > limits::head_dim)
    in.problem(keys.heads, fmt::format("heads of {} features; allowed: up to {}",
                                       vision.head_dim(), limits::head_dim));
  const std::int64_t edge = vision.patch * vision.projector.merge;
  if (vision.image_size % edge != 0)
    in.problem(keys.size, fmt::format("an image of {} pixels is no multiple of {}, the edge of the "
                                      "patches that become a token",
                                      vision.image_size, edge));
}

void read_vision(const ObjectReader& in, TransformerShape& shape) {
  if (!in.has("vision")) {
    if (in.has("projector")) in.problem("projector", "\"projector\" goes with \"vision\"");
    return;
  }
  const ObjectReader from = in.object("vision");
  VisionEncoder& vision = shape.vision;
  vision.layers = from.integer("layers", {.min = 1, .max = limits::layers});
  vision.hidden = from.integer("hidden", {.min = 1, .max = limits::hidden});
  vision.heads = from.integer("heads", {.min = 1, .max = limits::heads});
  vision.feed_forward = from.integer("feed_forward", {.min = 1, .max = limits::feed_forward});
  vision.norm = from.word<NormKind>("norm");
  vision.activation = from.word<Activation>("activation");
  vision.biases = from.boolean_or("biases", true);
  read_patches(from, vision);
  read_attention_of_vision(from, vision);
  vision.norm_before = from.boolean_or("norm_before", false);
  vision.norm_behind = from.boolean_or("norm_behind", false);
  vision.projector = read_projector(in.object("projector"));
  check_encoder(from, vision, {});
  if (shape.head != Head::language_model || shape.has_image())
    in.problem("vision", "\"vision\" goes with \"head: language_model\" over text only");
}

std::string vision_text(const VisionEncoder& vision) {
  std::string text = fmt::format(
      "{{layers: {}, hidden: {}, heads: {}, feed_forward: {}, norm: {}, activation: {}, biases: {}",
      vision.layers, vision.hidden, vision.heads, vision.feed_forward, word(vision.norm),
      word(vision.activation), vision.biases);
  const auto number = [&](const char* key, std::int64_t value, std::int64_t unset) {
    if (value != unset) text += fmt::format(", {}: {}", key, value);
  };
  const auto flag = [&](const char* key, bool value) {
    if (value) text += fmt::format(", {}: true", key);
  };
  number("patch", vision.patch, 0);
  number("frames", vision.frames, 1);
  number("channels", vision.channels, 3);
  flag("patch_bias", vision.patch_bias);
  number("image_size", vision.image_size, 0);
  number("positions", vision.positions, 0);
  flag("class_token", vision.class_token);
  flag("rotary", vision.rotary);
  number("window", vision.window, 0);
  if (!vision.full_attention.empty())
    text += fmt::format(", full_attention: {}",
                        layer_set_text(vision.full_attention, vision.layers));
  flag("norm_before", vision.norm_before);
  flag("norm_behind", vision.norm_behind);
  return text + "}";
}

std::string projector_text(const Projector& projector) {
  std::string text = fmt::format("{{merge: {}, pools: {}", projector.merge, projector.pools);
  if (projector.has_norm) text += fmt::format(", norm: {}", word(projector.norm));
  if (!projector.widths.empty())
    text += fmt::format(", widths: [{}]", fmt::join(projector.widths, ", "));
  return text +
         fmt::format(", biases: {}, deepstack: {}}}", projector.biases, projector.deepstack);
}

}  // namespace sim
