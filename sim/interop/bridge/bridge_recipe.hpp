// Recipes of Megatron-Bridge: Python functions that set fields of a configuration.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/interop/megatron/megatron_config.hpp"
#include "sim/scripts/python/python_recipe.hpp"

namespace sim {

// The class of the object that load_quantization_recipe() gives in the place of Megatron-Bridge's,
// with the path of the file.
inline constexpr std::string_view recipe_file_class = "QuantizationRecipeFile";

// The recipe `name` of a file with that text; empty: the only one that it has. Throws InputError
// that lists them.
std::string recipe_name(std::string_view text, const std::string& file, const std::string& name);

// recipe_names() are the recipes of a file; none where it is not read.
std::vector<std::string> recipe_names(const std::string& path);

// evaluate_recipe() is what a recipe makes, as python_recipe.hpp says. `from_files`: with what it
// imports from beside the file.
EvaluatedPython evaluate_recipe(std::string_view text, const std::string& file,
                                const std::string& name, bool from_files);

// The GPUs of a recipe by its name, as "..._256gpu_..."; 0: it does not say.
int gpus_of_recipe(std::string_view name);

// The shipped model that it trains by its name, as "llama3_70b_pretrain_..."; empty: it does not
// say one that is known.
std::string model_of_recipe(std::string_view name);

// read_recipe() fills in what the recipe takes over from Megatron-Bridge's common settings, and
// from helpers that are not read, where it does not set it.
void read_recipe(const ObjectReader& root, MegatronConfig& config, Imported& result);

// Products in the format of a recipe ("mxfp8", "nvfp4"), said at `place`. Returns the setting of
// whether parameters are gathered so.
Flag& multiply_as(std::string_view recipe, const std::optional<ValueReader>& place,
                  MegatronConfig& config);

// `recipe`: the result of evaluate_recipe().
Imported import_bridge_recipe(const EvaluatedPython& recipe, const std::string& name,
                              const ImportRequest& request);

}  // namespace sim
