// Runs of one's own that were measured, and what they say of the forecasts of other runs of the
// same framework on the same devices: `stepcast anchor` writes them, scenario key simulation.anchor
// names the file. docs/how-sure.md derives it.
#pragma once

#include <string>
#include <vector>

#include "sim/base/time_factors.hpp"
#include "sim/base/units.hpp"
#include "sim/uncertainty/job_traits.hpp"
#include "sim/uncertainty/step_parts.hpp"

namespace sim {

struct AnchorRun {
  std::string scenario;  // its file, as it was named
  JobTraits traits;      // with the shares of the step as it is anchored
  Duration measured{};
  Duration forecast{};  // without the anchor
  Duration anchored{};  // with it
  // ln(measured / forecast), made linear at the anchored forecast: what the effects explain.
  double log_error = 0;
  PartErrors parts{};  // of the forecast without the anchor
};

struct Anchor {
  std::string device;  // its name, as the device file has it
  FrameworkName framework = FrameworkName::megatron;
  std::vector<AnchorRun> runs;
};

// Throws InputError with every problem of the file.
Anchor load_anchor(const std::string& path);
std::string anchor_yaml(const Anchor& anchor);

}  // namespace sim
