// The `framework` section of a scenario.
#pragma once

#include "sim/framework/presets/preset.hpp"
#include "sim/scenario/layered.hpp"

namespace sim {

// read_preset() is the preset that `name` and `version` ask for: megatron where the section is
// silent.
const Preset& read_preset(const Layered& section);

// read_framework() is `framework` with what the section says of single keys.
Framework read_framework(const Layered& section, Framework framework);

}  // namespace sim
