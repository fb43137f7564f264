// The sections of an explanation, for text and Markdown.
#pragma once

#include <vector>

#include "sim/explain/explanation.hpp"
#include "sim/explain/sections.hpp"

namespace sim {

std::vector<TextSection> sections_of(const Explanation& explanation);

// The least share of a step that is shown; what is less is left out.
inline constexpr double least_seen = 0.0005;

// The words of a state in a table: "waiting for other ranks". `on_host`: of a run without GPUs.
std::string_view words_of_state(StepState state, bool on_host);

}  // namespace sim
