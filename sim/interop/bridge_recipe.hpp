// Recipes of Megatron-Bridge: Python functions that set fields of a configuration.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/config/reader.hpp"
#include "sim/interop/megatron_config.hpp"

namespace sim {

// The function `name` of a file as Syntax::python has it; empty: the only one that makes a
// configuration. Throws InputError that lists them. REQUIRES: `file` outlives it.
ObjectReader recipe_in(const Document& file, const std::string& name);
std::string recipe_name(const Document& file, const std::string& name);

// Those of a file; none where it is not read.
std::vector<std::string> recipe_names(const std::string& path);

// The GPUs of a recipe by its name, as "..._256gpu_..."; 0: it does not say.
int gpus_of_recipe(std::string_view name);

// Whether `root` is such a function.
bool is_recipe(const ObjectReader& root);
// What it takes over from its base and from its helpers, where it does not set it itself.
void read_recipe(const ObjectReader& root, MegatronConfig& config, Imported& result);

// Products in the format of a recipe ("mxfp8", "nvfp4"), said at `place`. Returns the setting of
// whether parameters are gathered so.
Flag& multiply_as(std::string_view recipe, const std::optional<ValueReader>& place,
                  MegatronConfig& config);

Imported import_bridge_recipe(const Document& file, const std::string& name,
                              const ImportRequest& request);

}  // namespace sim
