// A layout as the keys of the section `layout` and their values.
#pragma once

#include <string>
#include <vector>

#include "sim/layout/layout.hpp"
#include "sim/model/model.hpp"

namespace sim {

struct LayoutValue {
  std::string key;    // "tensor_parallel", "overlap.gradients"
  std::string value;  // as it is written in a file
};

// In the order of the file, every key that the model allows.
std::vector<LayoutValue> layout_values(const Layout& layout, const Model& model);

// "layout.tensor_parallel=4" of each: on top of a scenario of that model, --set with these gives
// exactly `layout`, whatever the file has in its place.
std::vector<std::string> overrides_of(const Layout& layout, const Model& model);

}  // namespace sim
