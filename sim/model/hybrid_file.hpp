// The layers of a hybrid model in a model file (models/FORMAT.md, "Hybrid layers").
#pragma once

#include <string>
#include <vector>

#include "sim/config/reader.hpp"
#include "sim/model/transformer_shape.hpp"

namespace sim {

// The keys mamba2, gated_delta_net, layer_pattern and layer_kinds. Records problems.
// REQUIRES: the number of layers is read.
void read_hybrid(const ObjectReader& in, TransformerShape& shape);
// Checks the other keys beside them. REQUIRES: all else is read.
void check_hybrid(const ObjectReader& in, const TransformerShape& shape);
// Keys and values of such a file.
struct HybridLine {
  std::string key, value;
};
std::vector<HybridLine> hybrid_lines(const Hybrid& hybrid);

}  // namespace sim
