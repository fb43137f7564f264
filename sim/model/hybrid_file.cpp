#include "sim/model/hybrid_file.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/config/yaml_text.hpp"
#include "sim/model/transformer.hpp"

namespace sim {
namespace {

namespace limits = transformer_limits;

Mamba2 read_mamba2(const ObjectReader& from) {
  Mamba2 mamba;
  mamba.heads = from.integer("heads", {.min = 1, .max = limits::heads});
  mamba.head_dim = from.integer_or("head_dim", 64, {.min = 1, .max = limits::head_dim});
  mamba.groups = from.integer_or("groups", 8, {.min = 1, .max = limits::heads});
  mamba.state = from.integer_or("state", 128, {.min = 1, .max = limits::state});
  mamba.convolution = from.integer_or("convolution", 4, {.min = 1, .max = limits::taps});
  mamba.convolution_bias = from.boolean_or("convolution_bias", true);
  mamba.chunk = from.integer_or("chunk", 128, {.min = 1, .max = limits::state});
  mamba.norm = from.boolean_or("norm", true);
  if (mamba.groups > 0 && mamba.heads % mamba.groups != 0)
    from.problem("groups",
                 fmt::format("{} groups do not divide {} heads", mamba.groups, mamba.heads));
  return mamba;
}

GatedDeltaNet read_delta_net(const ObjectReader& from) {
  GatedDeltaNet net;
  net.key_heads = from.integer("key_heads", {.min = 1, .max = limits::heads});
  net.value_heads = from.integer("value_heads", {.min = 1, .max = limits::heads});
  net.key_dim = from.integer_or("key_dim", 128, {.min = 1, .max = limits::head_dim});
  net.value_dim = from.integer_or("value_dim", 128, {.min = 1, .max = limits::head_dim});
  net.convolution = from.integer_or("convolution", 4, {.min = 1, .max = limits::taps});
  if (net.key_heads > 0 && net.value_heads % net.key_heads != 0)
    from.problem("key_heads", fmt::format("{} key_heads do not divide {} value_heads",
                                          net.key_heads, net.value_heads));
  return net;
}

// False where a letter is unknown.
bool read_letters(const ObjectReader& in, const char* key, std::vector<LayerKind>& layers) {
  for (const char letter : in.text(key)) {
    if (append_letter(layers, letter)) continue;
    in.problem(key, fmt::format("unknown letter '{}'; known: M (mamba2), G (gated_delta_net), * "
                                "(attention), - (mlp), E (experts)",
                                letter));
    return false;
  }
  return true;
}

void read_pattern(const ObjectReader& in, TransformerShape& shape) {
  if (!read_letters(in, "layer_pattern", shape.hybrid.layers)) return;
  const auto count = static_cast<std::int64_t>(shape.hybrid.layers.size());
  if (count != shape.layers)
    in.problem("layer_pattern",
               fmt::format("has {} layers, \"layers\" is {}", count, shape.layers));
}

LayerKind read_kind(const ObjectReader& from) {
  LayerKind kind;
  kind.mixer = from.word_or("mixer", Mixer::attention);
  kind.feed_forward = from.word_or("feed_forward", FeedForward::mlp);
  kind.kv_heads = from.integer_or("kv_heads", 0, {.min = 1, .max = limits::heads});
  kind.width = from.integer_or("width", 0, {.min = 1, .max = limits::feed_forward});
  if (kind.mixer == Mixer::none && kind.feed_forward == FeedForward::none)
    from.problem("a layer of neither a mixer nor a feed_forward does nothing: leave it out");
  if (kind.kv_heads > 0 && kind.mixer != Mixer::attention)
    from.problem("kv_heads", "\"kv_heads\" goes with \"mixer: attention\" only");
  if (kind.width > 0 && kind.feed_forward != FeedForward::mlp)
    from.problem("width", "\"width\" goes with \"feed_forward: mlp\" only");
  return kind;
}

// The list is one period; the layers are as many of it as there are.
void read_kinds(const ObjectReader& in, TransformerShape& shape) {
  std::vector<LayerKind> period;
  for (const ValueReader& entry : in.list("layer_kinds")) {
    const ObjectReader from = entry.object();
    const std::int64_t count = from.integer_or("count", 1, {.min = 1, .max = limits::layers});
    const LayerKind kind = read_kind(from);
    if (static_cast<std::int64_t>(period.size()) + count > limits::layers) break;
    period.insert(period.end(), static_cast<std::size_t>(count), kind);
  }
  const auto count = static_cast<std::int64_t>(period.size());
  if (count == 0 || shape.layers % count != 0)
    return in.problem("layer_kinds", fmt::format("has {} layers, of which {} are no multiple",
                                                 count, shape.layers));
  for (std::int64_t layer = 0; layer < shape.layers; ++layer)
    shape.hybrid.layers.push_back(period[static_cast<std::size_t>(layer % count)]);
}

std::string kind_text(const LayerKind& kind, std::int64_t count) {
  std::string text = fmt::format("{{count: {}, mixer: {}, feed_forward: {}", count,
                                 word(kind.mixer), word(kind.feed_forward));
  if (kind.kv_heads > 0) text += fmt::format(", kv_heads: {}", kind.kv_heads);
  if (kind.width > 0) text += fmt::format(", width: {}", kind.width);
  return text + "}";
}

// The shortest row of layers that all are repetitions of.
std::size_t period_of(const std::vector<LayerKind>& layers) {
  for (std::size_t period = 1; period < layers.size(); ++period) {
    if (layers.size() % period != 0) continue;
    const auto middle = layers.begin() + static_cast<std::ptrdiff_t>(period);
    if (std::equal(middle, layers.end(), layers.begin())) return period;
  }
  return layers.size();
}

std::string kinds_text(const std::vector<LayerKind>& layers) {
  const std::size_t period = period_of(layers);
  std::string text;
  for (std::size_t first = 0; first < period;) {
    std::size_t next = first;
    while (next < period && layers[next] == layers[first])
      ++next;
    text += fmt::format("{}{}", text.empty() ? "" : ", ",
                        kind_text(layers[first], static_cast<std::int64_t>(next - first)));
    first = next;
  }
  return fmt::format("[{}]", text);
}

}  // namespace

void read_hybrid(const ObjectReader& in, TransformerShape& shape) {
  if (in.has("mamba2")) shape.hybrid.mamba = read_mamba2(in.object("mamba2"));
  if (in.has("gated_delta_net"))
    shape.hybrid.delta_net = read_delta_net(in.object("gated_delta_net"));
  if (in.has("layer_pattern") && in.has("layer_kinds"))
    return in.problem("layer_kinds",
                      "\"layer_pattern\" and \"layer_kinds\" say the same: give one");
  if (in.has("layer_pattern")) read_pattern(in, shape);
  if (in.has("layer_kinds")) read_kinds(in, shape);
  if (in.has("mtp_pattern")) read_letters(in, "mtp_pattern", shape.mtp_kinds);
}

void check_hybrid(const ObjectReader& in, const TransformerShape& shape) {
  if (const std::string problem = mtp_problem(shape); !problem.empty())
    in.problem(in.has("mtp_pattern") ? "mtp_pattern" : "mtp_layers", problem);
  const char* key = in.has("layer_pattern") ? "layer_pattern"
                    : in.has("layer_kinds") ? "layer_kinds"
                    : in.has("mamba2")      ? "mamba2"
                                            : "gated_delta_net";
  if (!in.has(key)) return;
  if (const std::string problem = hybrid_problem(shape); !problem.empty()) in.problem(key, problem);
  if (!shape.hybrid.exists() || !in.has("experts")) return;
  const ObjectReader experts = in.object("experts");
  for (const char* place : {"first_layer", "every"})
    if (experts.has(place))
      experts.problem(place, fmt::format("\"{}\" does not go with \"{}\", which says which layers "
                                         "have experts",
                                         place, key));
}

std::vector<HybridLine> hybrid_lines(const Hybrid& hybrid) {
  std::vector<HybridLine> lines;
  const Mamba2& mamba = hybrid.mamba;
  if (mamba.exists())
    lines.push_back(
        {"mamba2",
         fmt::format("{{heads: {}, head_dim: {}, groups: {}, state: {}, convolution: "
                     "{}, convolution_bias: {}, chunk: {}{}}}",
                     mamba.heads, mamba.head_dim, mamba.groups, mamba.state, mamba.convolution,
                     mamba.convolution_bias, mamba.chunk, mamba.norm ? "" : ", norm: false")});
  const GatedDeltaNet& net = hybrid.delta_net;
  if (net.exists())
    lines.push_back(
        {"gated_delta_net",
         fmt::format("{{key_heads: {}, value_heads: {}, key_dim: {}, value_dim: {}, "
                     "convolution: {}}}",
                     net.key_heads, net.value_heads, net.key_dim, net.value_dim, net.convolution)});
  if (!hybrid.exists()) return lines;
  const std::string pattern = pattern_of(hybrid.layers);
  if (!pattern.empty())
    lines.push_back({"layer_pattern", yaml_quoted(pattern)});
  else
    lines.push_back({"layer_kinds", kinds_text(hybrid.layers)});
  return lines;
}

std::string hybrid_problem(const TransformerShape& shape) {
  const Hybrid& hybrid = shape.hybrid;
  if (hybrid.has(Mixer::mamba2) != hybrid.mamba.exists())
    return hybrid.mamba.exists() ? "\"mamba2\" is given, but no layer is one"
                                 : "a layer is mamba2, but \"mamba2\" is absent";
  if (hybrid.has(Mixer::gated_delta_net) != hybrid.delta_net.exists())
    return hybrid.delta_net.exists()
               ? "\"gated_delta_net\" is given, but no layer is one"
               : "a layer is gated_delta_net, but \"gated_delta_net\" is absent";
  if (!hybrid.exists()) return {};
  if (hybrid.has(Mixer::attention_mamba2) && shape.latent.exists())
    return "attention_mamba2 does not go with latent_attention";
  if (hybrid.has(FeedForward::experts) != (shape.experts.count > 0))
    return shape.experts.count > 0 ? "\"experts\" is given, but no layer has them"
                                   : "a layer has experts, but \"experts\" is absent";
  if (shape.norm_placement == NormPlacement::post)
    return "layers that differ go with norm_placement pre, reordered and sandwich; it is post";
  if (hybrid.has_scan() && shape.mask != AttentionMask::causal)
    return "mamba2 and gated_delta_net go with attention causal only";
  for (const LayerKind& kind : hybrid.layers)
    if (kind.kv_heads > 0 && (shape.latent.exists() || shape.heads % kind.kv_heads != 0))
      return shape.latent.exists()
                 ? "kv_heads of a layer does not go with latent_attention"
                 : fmt::format("{} kv_heads do not divide {} heads", kind.kv_heads, shape.heads);
  return {};
}

std::string mtp_problem(const TransformerShape& shape) {
  const Hybrid& hybrid = shape.hybrid;
  if (shape.mtp_layers == 0) return {};
  if (shape.mtp_kinds.empty()) {
    if (!hybrid.exists()) return {};
    const LayerKind& last = hybrid.layers.back();
    const bool whole = last.mixer != Mixer::none && last.feed_forward != FeedForward::none;
    return whole ? ""
                 : "\"mtp_layers\" adds a layer as the last one, which has one part alone: "
                   "give \"mtp_pattern\"";
  }
  if (!hybrid.exists()) return "\"mtp_pattern\" goes with \"layer_pattern\" or \"layer_kinds\"";
  for (const LayerKind& kind : shape.mtp_kinds)
    if ((kind.mixer == Mixer::mamba2 && !hybrid.mamba.exists()) ||
        (kind.mixer == Mixer::gated_delta_net && !hybrid.delta_net.exists()) ||
        (kind.feed_forward == FeedForward::experts && shape.experts.count == 0))
      return "\"mtp_pattern\" has a layer whose sizes no other one gives";
  return {};
}

}  // namespace sim
