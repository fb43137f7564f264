// The disjoint parts of a step, as a share of it and as a factor on its time.
#pragma once

#include <array>
#include <optional>

#include "sim/base/time_factors.hpp"
#include "sim/timeline/step_shares.hpp"

namespace sim {

struct StepPart {
  double StepShares::*share;
  TimeFactorField factor;
};
inline constexpr std::array parts_of_step{
    StepPart{&StepShares::products, time_factor_fields[0]},
    StepPart{&StepShares::memory_kernels, time_factor_fields[1]},
    StepPart{&StepShares::host, time_factor_fields[2]},
    StepPart{&StepShares::tensor, time_factor_fields[3]},
    StepPart{&StepShares::data, time_factor_fields[4]},
    StepPart{&StepShares::pipeline, time_factor_fields[5]}};

// ln(measured / forecast) of each of them, where it was measured by itself: from a trace.
using PartErrors = std::array<std::optional<double>, parts_of_step.size()>;

}  // namespace sim
