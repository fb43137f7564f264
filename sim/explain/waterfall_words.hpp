// A waterfall in words.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/explain/sections.hpp"
#include "sim/explain/waterfall.hpp"

namespace sim {

// "matrix products, slower: 9.1 % of the step (12.30 ms); most of it mlp.up forward
// [8192x28672x4096] at 71 % of the forecast's rate".
std::string sentence_of(const WaterfallPart& part, Duration step);

// cause_words() is the cause: "matrix products slower".
std::string_view cause_words(const WaterfallPart& part);

// The rate of an item over that of its forecast; nothing: one side has no time, or it has no rate.
std::optional<double> rate_of(TroubleKind kind, const WaterfallItem& item);

// largest_causes() are the sentences of the parts that cost most, at most three.
std::vector<std::string> largest_causes(const Waterfall& waterfall);

std::vector<TextSection> sections_of(const Waterfall& waterfall);

}  // namespace sim
