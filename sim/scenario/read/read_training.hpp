// The `training` section of a scenario.
#pragma once

#include "sim/layout/training.hpp"
#include "sim/scenario/layered.hpp"

namespace sim {

// All but `data`, a path that the caller resolves.
Training read_training(const Layered& section);

}  // namespace sim
