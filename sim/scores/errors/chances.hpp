// Whether chances come true: that the first of two layouts is the faster, on the studies of many
// layouts, and that a layout fits, on the sets that list failures.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/report/memory_error.hpp"
#include "sim/scores/errors/time_error_fit.hpp"

namespace sim {

struct ToldChance {
  double chance = 0;
  bool came_true = false;
};

struct ChanceTest {
  std::string of;  // "the first is faster", "fits"
  std::vector<ToldChance> told;
};

// Held-out rows, by the errors of the other sets. Of two layouts that ran the first is the one that
// is forecast to be faster. `results`: forecast with traits. `memory`: may be null.
std::vector<ChanceTest> test_chances(std::span<const SetResult> results, const TimeErrorFit& fit,
                                     const MemoryErrors* memory);

std::string chances_table(std::span<const ChanceTest> tests);
std::string chances_csv(std::span<const ChanceTest> tests);
std::string chances_markdown(std::span<const ChanceTest> tests);
std::string chances_json(std::span<const ChanceTest> tests);

}  // namespace sim
