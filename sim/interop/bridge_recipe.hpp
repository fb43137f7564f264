// Recipes of Megatron-Bridge: Python functions that set fields of a configuration.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/config/reader.hpp"
#include "sim/interop/megatron_config.hpp"
#include "sim/interop/recipe_chain.hpp"

namespace sim {

// The function `name` of a file as Syntax::python has it; empty: the only one that makes a
// configuration. Throws InputError that lists them. REQUIRES: `file` outlives it.
ObjectReader recipe_in(const Document& file, const std::string& name);
std::string recipe_name(const Document& file, const std::string& name);

// Those of a file; none where it is not read.
std::vector<std::string> recipe_names(const std::string& path);

// The GPUs of a recipe by its name, as "..._256gpu_..."; 0: it does not say.
int gpus_of_recipe(std::string_view name);

// The shipped model that it trains by its name, as "llama3_70b_pretrain_..."; empty: it does not
// say one that is known.
std::string model_of_recipe(std::string_view name);

// Whether `root` is such a function.
bool is_recipe(const ObjectReader& root);
// What it takes over from its helpers and from Megatron-Bridge's common settings, where neither it
// nor what it begins from sets it.
void read_recipe(const RecipeChain& chain, MegatronConfig& config, Imported& result);

// Products in the format of a recipe ("mxfp8", "nvfp4"), said at `place`. Returns the setting of
// whether parameters are gathered so.
Flag& multiply_as(std::string_view recipe, const std::optional<ValueReader>& place,
                  MegatronConfig& config);

// `path`: of the file, for the modules that it imports; empty: they are not read.
Imported import_bridge_recipe(const Document& file, const std::string& name,
                              const ImportRequest& request, const std::string& path = {});

}  // namespace sim
