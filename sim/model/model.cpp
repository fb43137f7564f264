#include "sim/model/model.hpp"

#include <algorithm>
#include <filesystem>

#include "sim/config/file_kind.hpp"
#include "sim/config/reader.hpp"
#include "sim/model/sources.hpp"
#include "sim/model/transformer.hpp"

namespace sim {

std::int64_t Block::parameters() const {
  std::int64_t sum = 0;
  for (const ModelOp& op : ops)
    sum += op.weights + op.biases;
  return sum;
}

const Block* Model::first_layer_with_experts() const {
  if (!has_experts()) return nullptr;
  for (std::size_t layer = 0; layer < layers.size(); ++layer)
    if (shape->kind_of(static_cast<std::int64_t>(layer)).feed_forward == FeedForward::experts)
      return &layers[layer];
  return nullptr;
}

std::vector<const Block*> Model::layers_of_each_kind() const {
  std::vector<const Block*> found;
  if (layers.empty()) return found;
  if (!is_hybrid()) {
    found.push_back(&layers.front());
    const Block* mixed = first_layer_with_experts();
    if (mixed != nullptr && mixed != found.back()) found.push_back(mixed);
    return found;
  }
  for (const LayerKind& kind : shape->hybrid.kinds()) {
    const auto& kinds = shape->hybrid.layers;
    found.push_back(&layers[static_cast<std::size_t>(std::find(kinds.begin(), kinds.end(), kind) -
                                                     kinds.begin())]);
  }
  return found;
}

std::int64_t Model::active_parameters() const {
  std::int64_t sum = parameters();
  const auto leave_out = [&](const Block& block) {
    for (const ModelOp& op : block.ops)
      if (op.experts > 0)
        sum -= (op.weights + op.biases) / op.experts * (op.experts - op.per_token);
  };
  for (const Block& layer : layers)
    leave_out(layer);
  leave_out(output);
  return sum;
}

std::int64_t Model::parameters() const {
  std::int64_t sum = input.parameters() + output.parameters();
  for (const Block& layer : layers)
    sum += layer.parameters();
  for (const Model& encoder : vision)
    sum += encoder.parameters();
  return sum;
}

void leave_out_vision(Model& model) {
  if (!model.has_vision()) return;
  std::erase(model.notes, note_of_vision);
  model.notes.emplace_back(
      "layout.images is 0: text alone; neither parameters nor time of the vision encoder are in "
      "the forecast");
  model.vision.clear();
  std::erase_if(model.input.ops, [](const ModelOp& op) { return op.name == place_images_name; });
}

Flops forward_flops(const Block& block, const AttentionShape& attention, std::int64_t sequence) {
  const auto tokens = static_cast<double>(sequence);
  Flops sum;
  for (const ModelOp& op : block.ops) {
    const double times = (op.once_per_sequence ? 1 : tokens) * static_cast<double>(op.per_token);
    if (is_product(op)) {
      sum += Flops{2.0 * static_cast<double>(op.in_features) *
                   static_cast<double>(op.out_features) * times};
    } else if (op.kind == ModelOpKind::attention) {
      // Q K^T and P V: 2 * sequence * width each, per head and token.
      sum +=
          Flops{2.0 * (op.piece > 0 ? std::min(static_cast<double>(op.piece), tokens) : tokens) *
                share_in_window(op.window, sequence) *
                static_cast<double>(attention.heads * (attention.head_dim + attention.value_dim)) *
                times};
    } else if (op.kind == ModelOpKind::generic) {
      sum += op.forward_flops;
    } else {
      sum += op.model_flops * times;
    }
  }
  return sum;
}

Flops forward_flops(const Model& model, std::int64_t sequence) {
  Flops sum = forward_flops(model.input, model.attention, sequence);
  for (const Block& layer : model.layers)
    sum += forward_flops(layer, model.attention, sequence);
  return sum + forward_flops(model.output, model.attention, sequence);
}

double attention_kernel_saved_bytes(const AttentionShape& attention, bool flash,
                                    std::int64_t sequence, int bytes_per_element) {
  const auto heads = static_cast<double>(attention.heads);
  if (flash) return 4 * heads;
  const double matrix = heads * static_cast<double>(sequence);
  const double softmax = matrix * bytes_per_element;
  const double capped = attention.softcap ? softmax : 0;  // the output of tanh
  // Eager: softmax(scores.float()).type_as(scores) keeps its fp32 output, and the product behind it
  // the cast one, which with dropout is the dropped output.
  if (attention.eager_softmax)
    return capped + 4 * matrix + softmax + (attention.dropout ? matrix : 0);
  return capped + (attention.dropout ? 2 * softmax + matrix : softmax);
}

SavedBytes saved_bytes(const Block& block, const AttentionShape& attention, bool flash,
                       std::int64_t sequence, int bytes_per_element) {
  SavedBytes sum;
  for (const ModelOp& op : block.ops) {
    const double share = op.once_per_sequence ? 1.0 / static_cast<double>(sequence)
                                              : static_cast<double>(op.per_token);
    if (op.starts_from >= 0) continue;  // its input is kept there already
    double own = op.saved_elements * bytes_per_element + op.saved_fixed_bytes;
    if (op.kind == ModelOpKind::attention)
      own += attention_kernel_saved_bytes(attention, flash, sequence, bytes_per_element);
    (op.split == TensorSplit::sequence ? sum.sequence : sum.inner) += own * share;
    sum.sequence += op.saved_input_elements * bytes_per_element * share;
  }
  return sum;
}

Model read_model(const Document& document) {
  const ObjectReader root = document.root_object();
  const bool transformer = root.has("transformer");
  const bool layer_list = root.has("layer_list");
  const bool hugging_face = root.has("model_type") || root.has("architectures");
  if (int{transformer} + int{layer_list} + int{hugging_face} != 1) {
    refuse_other_kinds(document, FileKind::model);
    throw InputError(root.where(),
                     "not a model: expected one of \"transformer\" or \"layer_list\" (a model of "
                     "ours), or \"model_type\" or \"architectures\" (a Hugging Face config.json)");
  }
  if (hugging_face) return read_hugging_face(document);
  return transformer ? read_transformer(document) : read_layer_list(document);
}

Model load_model(const std::string& path) {
  const bool folder = std::filesystem::is_directory(path);
  return read_model(
      Document::load(folder ? (std::filesystem::path{path} / "config.json").string() : path));
}

}  // namespace sim
