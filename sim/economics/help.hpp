// Changes that would help the goodput of a run most.
#pragma once

#include <string>
#include <vector>

#include "sim/economics/forecast.hpp"

namespace sim {

// Help is one change of the rules, and the run under it in closed form.
struct Help {
  std::string what;      // "copies in the memory of a peer"
  double goodput = 0;    // of expected_wall_time()
  double gpu_hours = 0;  // of the whole run, with its spares, over those of the run as it is
};

// Each change alone, best first; those that would not help are left out. The step is not simulated
// again. REQUIRES: forecast.rented.ends().
std::vector<Help> what_would_help(const Scenario& scenario, const Budget& budget,
                                  const BudgetForecast& forecast);

}  // namespace sim
