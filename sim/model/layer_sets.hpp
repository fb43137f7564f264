// Sets of layers in model files: a list of numbers, or each n-th layer.
#pragma once

#include <string>
#include <string_view>

#include "sim/config/reader.hpp"
#include "sim/model/transformer_shape.hpp"

namespace sim {

// The layers of a key: [5, 11, 17], or {every: 6, first_layer: 5}, whose first_layer is every - 1
// unless it is given. Nothing without the key. Records problems.
LayerSet read_layer_set(const ObjectReader& in, std::string_view key, std::int64_t layers);
// The set as such a value.
std::string layer_set_text(const LayerSet& set, std::int64_t layers);

}  // namespace sim
