// Parsers from text to tree. They throw InputError at the first place where the grammar is broken.
#pragma once

#include "sim/config/tree.hpp"

namespace sim {

void parse_yaml_into(Tree& tree);
void parse_json_into(Tree& tree);
void parse_toml_into(Tree& tree);

}  // namespace sim
