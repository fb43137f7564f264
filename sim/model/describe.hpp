// Models in words, for the `models` and `import hf` commands.
#pragma once

#include <span>
#include <string>

#include "sim/model/model.hpp"

namespace sim {

// Name, source, sizes and notes, then the operators of each kind of block with their parameters.
std::string describe(const Model& model);

struct NamedModel {
  std::string name;  // of the shipped file
  Model model;
};
// A line per model: name, family, parameters, layers, hidden size.
std::string model_table(std::span<const NamedModel> models);

}  // namespace sim
