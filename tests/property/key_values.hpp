// Values of every key of a scenario's sections `layout` and `framework`, to be drawn together.
#pragma once

#include <string>
#include <vector>

namespace sim::test {

// A key with the values that it is drawn with, as a scenario file has them.
struct KeyValues {
  std::string path;  // "layout.tensor_parallel"
  std::vector<std::string> values;
};

// The keys of the catalogue that have values: all words, both truth values, and of numbers, sizes
// and lists some that differ in kind.
std::vector<KeyValues> drawn_keys();
// The other keys of the two sections.
std::vector<std::string> keys_not_drawn();

// Small models of each kind, as the value of a scenario's key `model`.
struct SmallModel {
  std::string name, yaml;
};
const std::vector<SmallModel>& small_models();

}  // namespace sim::test
