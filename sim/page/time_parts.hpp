// The parts of a step's time as pages show them.
#pragma once

#include <array>

#include "sim/timeline/breakdown.hpp"

namespace sim {

// TimePart is a part of a step with its words and its colour.
struct TimePart {
  const char* name;
  Duration Breakdown::*part;
  const char* colour;
};
inline constexpr std::array time_parts{
    TimePart{"compute", &Breakdown::compute, "#009e73"},
    TimePart{"exposed tensor", &Breakdown::exposed_tensor, "#b89b00"},
    TimePart{"exposed context", &Breakdown::exposed_context, "#56b4e9"},
    TimePart{"exposed expert", &Breakdown::exposed_expert, "#e69f00"},
    TimePart{"exposed data", &Breakdown::exposed_data, "#d55e00"},
    TimePart{"exposed pipeline", &Breakdown::exposed_pipeline, "#cc79a7"},
    TimePart{"bubble", &Breakdown::bubble, "#999999"},
    TimePart{"host", &Breakdown::host, "#0072b2"}};

}  // namespace sim
