// Models by their names on the Hugging Face Hub: data/names/hub.yaml.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "sim/interop/handover.hpp"
#include "sim/interop/settings.hpp"

namespace sim {

// HubNames: the shipped model of each name, by what stands around the language model.
struct HubNames {
  std::map<std::string, std::string, std::less<>> models, with_tower, language_model_of;
};
// read_hub_names() refuses a model that is not shipped and a name that is listed twice.
HubNames read_hub_names(const Document& file);

// The shipped model file of that shape ("meta-llama/Llama-3.1-8B-Instruct": llama-3.1-8b); empty:
// none that is known.
std::string model_of_hub(std::string_view name);

// Whether it has an encoder of images or sound besides, which no forecast has.
bool has_other_modalities(std::string_view name);

// The model of `request` where the options give none and the hub's name is known. A note says
// where --model names another, or where the name says nothing.
void take_hub_model(const Text& name, ImportRequest& request, Imported& result);

}  // namespace sim
