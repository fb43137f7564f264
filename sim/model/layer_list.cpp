// A list of layers with their parameters, FLOPs and activations: for whatever is not a transformer.
// Everything is per sample; models/README.md documents every key.
#include <fmt/format.h>

#include "sim/config/reader.hpp"
#include "sim/model/sources.hpp"
#include "sim/model/transformer.hpp"

namespace sim {

namespace {

constexpr std::int64_t most_parameters = 100'000'000'000;  // of a layer: 1e5 layers stay below 2^63
constexpr double most_elements = 1e15;
constexpr std::size_t most_layers = 10'000;

// A layer whose traffic is not given is one fused kernel that reads its input and writes its
// output; its backward pass reads the input and the gradient of the output and writes the gradient
// of the input.
void set_default_traffic(ModelOp& op, double input, double output) {
  op.forward_elements = input + output;
  op.backward_elements = 2 * input + output;
}

Block read_layer(const ObjectReader& in, double input_elements) {
  const RealRange elements{.min = 0, .max = most_elements};
  ModelOp op;
  op.name = in.text("name");
  op.kind = ModelOpKind::generic;
  op.split = TensorSplit::sequence;
  op.weights = in.integer("parameters", {.min = 0, .max = most_parameters});
  op.forward_flops = in.at("forward_flops").flops();
  // Gradients of inputs and of weights: as much again each.
  op.backward_flops = op.forward_flops * 2;
  if (const auto given = in.find("backward_flops")) op.backward_flops = given->flops();
  if (!in.has("activation_elements") && !in.has("activation_bytes"))
    in.problem(
        "missing \"activation_elements\" (kept for the backward pass, in elements of the "
        "activation dtype) or \"activation_bytes\"");
  op.saved_elements = in.real_or("activation_elements", 0, elements);
  op.saved_fixed_bytes = static_cast<double>(in.bytes_or("activation_bytes", Bytes{0}).count());
  const std::int64_t output =
      in.integer("output_elements", {.min = 0, .max = static_cast<std::int64_t>(most_elements)});
  set_default_traffic(op, input_elements, static_cast<double>(output));
  op.forward_elements = in.real_or("forward_elements", op.forward_elements, elements);
  op.backward_elements = in.real_or("backward_elements", op.backward_elements, elements);
  Block block{.name = op.name, .ops = {}, .output_elements = output};
  block.ops.push_back(std::move(op));
  return block;
}

}  // namespace

Model read_layer_list(const Document& document) {
  const ObjectReader root = document.root_object();
  Model model;
  model.name = root.text_or("name", name_from_path(document.name()));
  model.family = "layers";
  model.source = root.text("source");
  model.is_layer_list = true;
  model.fixed_sequence = 1;
  const ObjectReader in = root.object("layer_list");
  auto elements = static_cast<double>(
      in.integer("input_elements", {.min = 1, .max = static_cast<std::int64_t>(most_elements)}));
  const std::vector<ValueReader> layers = in.list("layers");
  if (layers.empty() || layers.size() > most_layers)
    in.problem("layers", fmt::format("{} layers; allowed: 1 to {}", layers.size(), most_layers));
  for (const ValueReader& layer : layers) {
    if (model.layers.size() == most_layers) break;
    model.layers.push_back(read_layer(layer.object(), elements));
    elements = static_cast<double>(model.layers.back().output_elements);
  }
  document.finish();
  return model;
}

}  // namespace sim
