// A model as `stepcast models show` prints it.
#pragma once

#include <string>

#include "sim/model/model.hpp"

namespace sim {

std::string model_text(const Model& model);

}  // namespace sim
