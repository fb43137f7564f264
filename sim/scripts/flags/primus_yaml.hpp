// Experiments of AMD's Primus: YAML with `modules: {pre_trainer: {framework, config, model,
// overrides}}`, in which `extends` (before: `includes`) names files that come first and
// "${NAME:default}" stands for a variable.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/scripts/script_parsers.hpp"

namespace sim {

// The back end that an experiment trains with ("megatron", "torchtitan"); empty: the text is none.
std::string primus_framework(std::string_view text);

// The tree of Megatron-LM's flags as a training prints them, or of torchtitan's sections. Files
// that it names are read beside it, and in primus/configs of folders above it; their values have
// the place of the line that names them. Throws InputError.
void parse_primus_into(Tree& tree, std::span<const Definition> definitions, const ShellFiles& files,
                       std::vector<Remark>& remarks);

}  // namespace sim
