#include "sim/interop/hub_models.hpp"

#include <fmt/format.h>

#include <array>
#include <cctype>

#include "sim/config/data_files.hpp"
#include "sim/config/data_folder.hpp"
#include "sim/model/transformer.hpp"

namespace sim {
namespace {

// Endings of fine-tunings, and of formats of the same weights.
constexpr std::array<std::string_view, 10> name_endings{
    "-hf",   "-it",   "-chat",     "-base",    "-instruct",
    "-2507", "-bf16", "-thinking", "-preview", "-bnb-4bit"};

std::string bare_name(std::string_view name) {
  std::string bare;
  for (const char c : name.substr(name.rfind('/') + 1))
    bare += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (bool cut = true; cut;) {
    cut = false;
    for (const std::string_view ending : name_endings)
      if (bare.ends_with(ending)) {
        bare.resize(bare.size() - ending.size());
        cut = true;
      }
  }
  if (bare.starts_with("meta-llama-")) bare.erase(0, 5);
  return bare;
}

std::map<std::string, std::string, std::less<>> read_names_of(const ObjectReader& models) {
  std::map<std::string, std::string, std::less<>> model_of;
  for (const std::string& model : models.keys()) {
    if (shipped_file("models", model).empty())
      models.problem(model, fmt::format("there is no model '{}' in models/", model));
    for (const ValueReader& name : models.list(model))
      if (!model_of.emplace(name.text(), model).second)
        name.problem(fmt::format("'{}' is listed twice", name.text()));
  }
  return model_of;
}

const HubNames& hub_names() {
  static const HubNames names =
      read_hub_names(Document::load(program_data_file("data/names/hub.yaml")));
  return names;
}

}  // namespace

HubNames read_hub_names(const Document& file) {
  const ObjectReader root = file.root_object();
  HubNames names{.models = read_names_of(root.object("models")),
                 .with_tower = read_names_of(root.object("with_tower")),
                 .language_model_of = read_names_of(root.object("language_model_of"))};
  file.finish();
  return names;
}

std::string model_of_hub(std::string_view name) {
  const std::string bare = bare_name(name);
  const HubNames& names = hub_names();
  for (const auto* list : {&names.models, &names.with_tower, &names.language_model_of})
    if (const auto found = list->find(bare); found != list->end()) return found->second;
  return {};
}

bool has_other_modalities(std::string_view name) {
  return hub_names().language_model_of.contains(bare_name(name));
}

void take_hub_model(const Text& name, ImportRequest& request, Imported& result) {
  if (!name) return;
  const std::string known = model_of_hub(*name);
  std::optional<TransformerShape> shape;
  if (hub_names().with_tower.contains(bare_name(*name)) && !request.model)
    result.notes.push_back(
        {"model", fmt::format("{}: the language model alone; the tower of images or "
                              "sound is left out",
                              (*name).substr(0, 80))});
  if (!known.empty()) shape = load_model(find_data_file("models", known)).shape;
  if (has_other_modalities(*name))
    result.notes.push_back({"model",
                            "the language model alone is forecast, without the encoder of "
                            "images or sound and its projection"});
  if (!request.model) {
    request.model = shape;
  } else if (!shape || !same_shape(*shape, *request.model)) {
    result.notes.push_back({"model", fmt::format("the file trains {}; the forecast takes the "
                                                 "model of --model",
                                                 (*name).substr(0, 80))});
  }
}

}  // namespace sim
