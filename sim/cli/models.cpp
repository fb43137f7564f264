// stepcast models: the architectures that are shipped, and what a model file says.
#include <fmt/format.h>

#include <memory>

#include "sim/cli/command.hpp"
#include "sim/cli/model_text.hpp"
#include "sim/model/model.hpp"
#include "sim/report/numbers.hpp"

namespace sim {
namespace {

ExitCode list_models() {
  std::string text = fmt::format("{:<26}{:<10}{:>18}{:>8}{:>8}\n", "model", "family", "parameters",
                                 "layers", "hidden");
  for (const std::string& name : data_files("models")) {
    const Model model = load_model(find_data_file("models", name));
    text += fmt::format("{:<26}{:<10}{:>18}{:>8}{:>8}\n", name, model.family,
                        grouped(model.parameters()), model.layers.size(),
                        model.hidden > 0 ? std::to_string(model.hidden) : "-");
  }
  print_result(text);
  return ExitCode::done;
}

}  // namespace

namespace {

// What of its attention the sizes of heads do not say.
std::string window_text(const TransformerShape& shape) {
  std::string text;
  const auto counted = [&](const LayerSet& without) {
    return shape.layers - static_cast<std::int64_t>(without.layers.size());
  };
  if (shape.window > 0)
    text += fmt::format("window      {} tokens in {} of {} layers\n", shape.window,
                        counted(shape.full_attention), shape.layers);
  if (!shape.without_positions.empty())
    text += fmt::format("positions   {}, in {} of {} layers\n", word(shape.positions),
                        counted(shape.without_positions), shape.layers);
  return text;
}

}  // namespace

std::string model_text(const Model& model) {
  std::string text =
      fmt::format("{} ({})\nsource      {}\nparameters  {}\nlayers      {}\n", model.name,
                  model.family, model.source, grouped(model.parameters()), model.layers.size());
  if (model.has_experts())
    text += fmt::format("experts     {} of {} for each token; it passes {} parameters\n",
                        model.shape->experts.per_token, model.shape->experts.count,
                        grouped(model.active_parameters()));
  if (!model.is_layer_list) {
    text += fmt::format("hidden      {}\nffn         {}\nheads       {} of {} ({} key/value), {}\n",
                        model.hidden, model.feed_forward, model.attention.heads,
                        model.attention.head_dim, model.attention.kv_heads,
                        model.attention.causal ? "causal" : "bidirectional");
    text += fmt::format("vocabulary  {}{}\n", model.vocabulary,
                        model.tied_embedding ? ", head tied to the embedding" : "");
  }
  if (model.shape) text += window_text(*model.shape);
  for (const std::string& note : model.notes)
    text += fmt::format("note        {}\n", note);
  const auto add_block = [&](const Block& block, const std::string& title) {
    if (block.ops.empty()) return;
    text += fmt::format("\n{}: {} parameters\n", title, grouped(block.parameters()));
    for (const ModelOp& op : block.ops)
      text += fmt::format("  {:<24}{:>8} -> {:<8}{:>16} parameters\n", op.name, op.in_features,
                          op.out_features, grouped(op.weights + op.biases));
  };
  add_block(model.input, "input");
  if (model.is_layer_list)
    for (const Block& layer : model.layers)
      add_block(layer, layer.name);
  else if (!model.layers.empty())
    add_block(model.layers.front(), "first of the layers");
  const Block* mixed = model.first_layer_with_experts();
  if (mixed != nullptr && mixed != &model.layers.front())
    add_block(*mixed, fmt::format("layer {}, the first with experts",
                                  model.shape->experts.first_layer + 1));
  add_block(model.output, "output");
  return text;
}

Command models_command() {
  const auto name = std::make_shared<std::string>();
  const Command show{.name = "show",
                     .help = "what a model file says, operator by operator",
                     .options = {{.name = "MODEL",
                                  .into = name.get(),
                                  .help = "name as listed, or a file",
                                  .required = true}},
                     .run = [name] {
                       print_result(model_text(load_model(find_data_file("models", *name))));
                       return ExitCode::done;
                     }};
  return {.name = "models",
          .help = "the architectures that are shipped",
          .commands = {{.name = "list",
                        .help = "all shipped models with their parameter counts",
                        .run = list_models},
                       show},
          .footer = "Example: stepcast models show llama-3.1-8b"};
}

}  // namespace sim
