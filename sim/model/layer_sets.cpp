#include "sim/model/layer_sets.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace sim {
namespace {

LayerSet each_nth(std::int64_t first, std::int64_t every, std::int64_t layers) {
  LayerSet set;
  for (std::int64_t layer = first; layer < layers; layer += every)
    set.layers.push_back(layer);
  return set;
}

}  // namespace

LayerSet read_layer_set(const ObjectReader& in, std::string_view key, std::int64_t layers) {
  LayerSet set;
  const std::optional<ValueReader> value = in.find(key);
  if (!value) return set;
  const std::int64_t last = std::max<std::int64_t>(0, layers - 1);
  if (value->is_list()) {
    for (const ValueReader& entry : value->list())
      set.layers.push_back(entry.integer({.min = 0, .max = last}));
    std::ranges::sort(set.layers);
    if (std::ranges::adjacent_find(set.layers) != set.layers.end())
      value->problem("names a layer twice");
    return set;
  }
  const ObjectReader from = value->object();
  const std::int64_t every =
      std::max<std::int64_t>(1, from.integer("every", {.min = 1, .max = last + 1}));
  const std::int64_t first = from.integer_or("first_layer", every - 1, {.min = 0, .max = last});
  return each_nth(first, every, layers);
}

std::string layer_set_text(const LayerSet& set, std::int64_t layers) {
  if (set.layers.size() > 1) {
    const std::int64_t first = set.layers[0], every = set.layers[1] - first;
    if (every > 0 && each_nth(first, every, layers) == set)
      return fmt::format("{{every: {}, first_layer: {}}}", every, first);
  }
  return fmt::format("[{}]", fmt::join(set.layers, ", "));
}

}  // namespace sim
