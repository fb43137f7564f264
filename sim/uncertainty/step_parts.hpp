// The disjoint parts of a step, as a share of it and as a factor on its time.
#pragma once

#include <array>

#include "sim/base/time_factors.hpp"
#include "sim/timeline/step_shares.hpp"

namespace sim {

struct StepPart {
  double StepShares::*share;
  TimeFactorField factor;
};
inline constexpr std::array step_parts{StepPart{&StepShares::products, time_factor_fields[0]},
                                       StepPart{&StepShares::memory_kernels, time_factor_fields[1]},
                                       StepPart{&StepShares::host, time_factor_fields[2]},
                                       StepPart{&StepShares::tensor, time_factor_fields[3]},
                                       StepPart{&StepShares::data, time_factor_fields[4]},
                                       StepPart{&StepShares::pipeline, time_factor_fields[5]}};

}  // namespace sim
