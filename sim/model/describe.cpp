#include "sim/model/describe.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/table_text.hpp"

namespace sim {
namespace {

// Windows and positions, which the sizes of heads do not say.
std::string window_text(const TransformerShape& shape) {
  std::string text;
  const auto counted = [&](const LayerSet& without) {
    return shape.layers - static_cast<std::int64_t>(without.layers.size());
  };
  if (shape.window > 0)
    text += fmt::format("window      {} tokens in {} of {} layers\n", shape.window,
                        counted(shape.full_attention), shape.layers);
  if (const std::string pattern = pattern_of(shape.hybrid.layers); !pattern.empty())
    text += fmt::format("pattern     {}\n", pattern);
  if (!shape.without_positions.empty())
    text += fmt::format("positions   {}, in {} of {} layers\n", word(shape.positions),
                        counted(shape.without_positions), shape.layers);
  return text;
}

std::string size_text(const Model& model) {
  std::string text =
      fmt::format("{} ({})\nsource      {}\nparameters  {}\nlayers      {}\n", model.name,
                  model.family, model.source, grouped(model.parameters()), model.layers.size());
  if (model.has_experts())
    text += fmt::format("experts     {} of {} for each token; it passes {} parameters\n",
                        model.shape->experts.per_token, model.shape->experts.count,
                        grouped(model.active_parameters()));
  if (!model.is_layer_list)
    text += fmt::format(
        "hidden      {}\n{}heads       {} of {} ({} key/value), {}\nvocabulary  {}{}\n",
        model.hidden,
        model.feed_forward > 0 ? fmt::format("ffn         {}\n", model.feed_forward) : "",
        model.attention.heads, model.attention.head_dim, model.attention.kv_heads,
        model.attention.causal ? "causal" : "bidirectional", model.vocabulary,
        model.tied_embedding ? ", head tied to the embedding" : "");
  for (const Model& encoder : model.vision)
    text += fmt::format("vision      {} layers of {}, {} heads; {} parameters with the projector\n",
                        encoder.layers.size(), encoder.hidden, encoder.attention.heads,
                        grouped(encoder.parameters()));
  return model.shape ? text + window_text(*model.shape) : text;
}

std::string block_text(const Block& block, const std::string& title) {
  if (block.ops.empty()) return "";
  std::string text = fmt::format("\n{}: {} parameters\n", title, grouped(block.parameters()));
  for (const ModelOp& op : block.ops)
    text += fmt::format("  {:<24}{:>8} -> {:<8}{:>16} parameters\n", op.name, op.in_features,
                        op.out_features, grouped(op.weights + op.biases));
  return text;
}

std::string kind_name(const LayerKind& kind) {
  std::string text;
  if (kind.mixer != Mixer::none) text += word(kind.mixer);
  if (kind.mixer == Mixer::attention && kind.kv_heads > 0)
    text += fmt::format(" ({} key/value heads)", kind.kv_heads);
  if (kind.feed_forward == FeedForward::none) return text;
  if (!text.empty()) text += " and ";
  text += word(kind.feed_forward);
  return kind.width > 0 ? text + fmt::format(" of {}", kind.width) : text;
}

std::string kinds_text(const Model& model) {
  const Hybrid& hybrid = model.shape->hybrid;
  const std::vector<LayerKind> kinds = hybrid.kinds();
  const std::vector<const Block*> blocks = model.layers_of_each_kind();
  std::string text;
  for (std::size_t i = 0; i < kinds.size(); ++i)
    text += block_text(*blocks[i],
                       fmt::format("{} layers with {}",
                                   std::count(hybrid.layers.begin(), hybrid.layers.end(), kinds[i]),
                                   kind_name(kinds[i])));
  return text;
}

// Each layer of a list; of a transformer one layer of each kind.
std::string layers_text(const Model& model) {
  std::string text;
  if (model.is_layer_list) {
    for (const Block& layer : model.layers)
      text += block_text(layer, layer.name);
    return text;
  }
  if (model.layers.empty()) return text;
  if (model.is_hybrid()) return text + kinds_text(model);
  text += block_text(model.layers.front(), "first of the layers");
  const Block* mixed = model.first_layer_with_experts();
  if (mixed != nullptr && mixed != &model.layers.front())
    text += block_text(*mixed, fmt::format("layer {}, the first with experts",
                                           model.shape->experts.first_layer + 1));
  return text;
}

}  // namespace

std::string describe(const Model& model) {
  std::string text = size_text(model);
  for (const std::string& note : model.notes)
    text += fmt::format("note        {}\n", note);
  for (const Model& encoder : model.vision)
    text += block_text(encoder.input, "vision, patches") +
            block_text(encoder.layers.front(), "vision, first of the layers") +
            block_text(encoder.output, "vision, projector");
  return text + block_text(model.input, "input") + layers_text(model) +
         block_text(model.output, "output");
}

std::string model_table(std::span<const NamedModel> models) {
  std::string text = fmt::format("{:<26}{:<10}{:>18}{:>8}{:>8}\n", "model", "family", "parameters",
                                 "layers", "hidden");
  for (const auto& [name, model] : models)
    text += fmt::format("{:<26}{:<10}{:>18}{:>8}{:>8}\n", name, model.family,
                        grouped(model.parameters()), model.layers.size(),
                        model.hidden > 0 ? std::to_string(model.hidden) : "-");
  return text;
}

}  // namespace sim
