// An explanation as a JSON object, of which a waterfall may be a part.
#pragma once

#include <nlohmann/json.hpp>

#include "sim/explain/explanation.hpp"

namespace sim {

nlohmann::ordered_json json_object(const Explanation& explanation);

}  // namespace sim
