// A waterfall in words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/explain/sections.hpp"
#include "sim/explain/waterfall.hpp"

namespace sim {

// "matrix products, slower: 9.1 % of the step (12.30 ms); most of it mlp.up forward
// [8192x28672x4096] at 71 % of the forecast's rate".
std::string sentence_of(const WaterfallPart& part, Duration step);

// title_of_part() is the cause in words: "matrix products slower".
std::string_view title_of_part(const WaterfallPart& part);

std::vector<TextSection> sections_of(const Waterfall& waterfall);

}  // namespace sim
