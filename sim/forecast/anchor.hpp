// Learns from measured runs: forecasts them, and finds what the published rows and these runs
// together say of the effects that forecasts are off by. docs/how-sure.md derives it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/base/control.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/uncertainty/anchor.hpp"
#include "sim/uncertainty/time_error.hpp"

namespace sim {

struct MeasuredRun {
  std::string name;
  Scenario scenario;
  Duration measured{};
  std::vector<std::string> overrides{};  // that the scenario was read with
  PartErrors parts{};                    // of a trace of the run, where there is one
};

// REQUIRES: runs; of one framework on one device; measured times above zero. Factors of their
// scenarios are overwritten. `published`: not anchored. Throws as forecast() does.
Anchor anchored_on(std::span<MeasuredRun> runs, const TimeErrors& published,
                   const Control& control = {});

}  // namespace sim
