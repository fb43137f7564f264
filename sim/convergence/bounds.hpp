// Proved bounds of schemes of synchronisation, and their assumptions.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace sim {

struct ConvergenceBound {
  std::string_view scheme;  // "top-k, random-k", as people call it
  std::string_view keys;    // of a scenario that select it; empty: the engine does not train so
  std::string_view proved, assumes, source;
};
std::span<const ConvergenceBound> convergence_bounds();

// All of them for people. They bound the order of growth, with constants that nobody knows for a
// given model: no factor follows from them.
std::string bounds_table();
std::string bounds_markdown();
std::string bounds_json();
std::string bounds_csv();

}  // namespace sim
