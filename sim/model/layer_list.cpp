// A list of layers with their parameters, FLOPs and activations: for whatever is not a transformer.
// Everything is per sample; models/FORMAT.md documents every key.
#include <fmt/format.h>

#include "sim/config/reader.hpp"
#include "sim/model/sources.hpp"
#include "sim/model/transformer.hpp"

namespace sim {

namespace {

// 10^4 layers of 10^3 operators with 10^11 parameters stay below 2^63.
constexpr std::int64_t most_parameters = 100'000'000'000;
constexpr double most_elements = 1e15;
constexpr std::size_t most_layers = 10'000;
constexpr std::size_t most_operators = 1'000;

const RealRange elements_range{.min = 0, .max = most_elements};
constexpr IntegerRange sizes_range{.min = 0, .max = static_cast<std::int64_t>(most_elements)};

// Reads the figures that a layer, or each of its operators, states.
ModelOp read_figures(const ObjectReader& in) {
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
  op.saved_elements = in.real_or("activation_elements", 0, elements_range);
  op.saved_fixed_bytes = static_cast<double>(in.bytes_or("activation_bytes", Bytes{0}).count());
  return op;
}

// Operators of a layer: their memory traffic cannot be told from the layer's input and output.
ModelOp read_operator(const ObjectReader& in) {
  ModelOp op = read_figures(in);
  op.forward_elements = in.real("forward_elements", elements_range);
  op.backward_elements = in.real("backward_elements", elements_range);
  return op;
}

// A layer without operators is one fused kernel. Unless its traffic is given, that reads the input
// and writes the output, and its backward pass reads the input and the gradient of the output and
// writes the gradient of the input.
ModelOp read_single_operator(const ObjectReader& in, double input, double output) {
  ModelOp op = read_figures(in);
  op.forward_elements = in.real_or("forward_elements", input + output, elements_range);
  op.backward_elements = in.real_or("backward_elements", 2 * input + output, elements_range);
  return op;
}

Block read_layer(const ObjectReader& in, std::int64_t input_elements) {
  Block block;
  block.name = in.text("name");
  block.output_elements = in.integer("output_elements", sizes_range);
  if (!in.has("operators")) {
    block.ops.push_back(read_single_operator(in, static_cast<double>(input_elements),
                                             static_cast<double>(block.output_elements)));
    return block;
  }
  const std::vector<ValueReader> operators = in.list("operators");
  if (operators.empty() || operators.size() > most_operators)
    in.problem("operators",
               fmt::format("{} operators; allowed: 1 to {}", operators.size(), most_operators));
  for (const ValueReader& entry : operators) {
    if (block.ops.size() == most_operators) break;
    block.ops.push_back(read_operator(entry.object()));
  }
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
  std::int64_t elements =
      in.integer("input_elements", {.min = 1, .max = static_cast<std::int64_t>(most_elements)});
  const std::vector<ValueReader> layers = in.list("layers");
  if (layers.empty() || layers.size() > most_layers)
    in.problem("layers", fmt::format("{} layers; allowed: 1 to {}", layers.size(), most_layers));
  for (const ValueReader& layer : layers) {
    if (model.layers.size() == most_layers) break;
    model.layers.push_back(read_layer(layer.object(), elements));
    elements = model.layers.back().output_elements;
  }
  document.finish();
  return model;
}

}  // namespace sim
