// Formats by module: Megatron-LM's quantization recipes (core/quantization/quant_config.py, and
// core/extensions/transformer_engine.py, TEQuantizationRecipe, at d98e8a64).
//
// A recipe is a list of patterns of module names, each with a format. The first pattern that a name
// fits decides; where none fits, the job's own format stays.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/config/reader.hpp"

namespace sim {

struct ModuleRecipe {
  // How a module multiplies in training.
  struct Format {
    std::string name{};           // by which matchers call it
    std::string eight_bit{};      // "mxfp8", "tensorwise", "blockwise"
    bool four_bit = false;        // NVFP4; neither: 16 bits
    bool over_quantized = true;   // in place of 8 or 4 bits
    bool over_plain = false;      // in place of 16
    bool own_parameters = false;  // which are in that format themselves
    bool is_plain() const { return eight_bit.empty() && !four_bit; }
  };
  struct Matcher {
    std::string pattern;
    std::size_t format = 0;
  };

  std::vector<Format> formats;
  std::vector<Matcher> matchers;

  // Null: none fits.
  const Format* of(std::string_view module) const;
};

// As Python's fnmatch has it: *, ?, [seq], [!seq].
bool glob_matches(std::string_view pattern, std::string_view text);

// A recipe as a file of its own has it ("configs", and "matchers" by name), or as a container of
// Megatron-Bridge writes it ("config_dict", and a list of matchers). Mistakes become problems.
ModuleRecipe read_module_recipe(const ObjectReader& from);

// The file `path`, which the value at `named` names: relative to the file that names it, else to
// the working directory. Throws InputError for mistakes in it; one that is not there is a problem
// at `named`.
ModuleRecipe load_module_recipe(const std::string& path, const ValueReader& named);

// The container form, in one line: {_target_: ..., matchers: [...], config_dict: {...}}.
std::string module_recipe_text(const ModuleRecipe& recipe);

}  // namespace sim
