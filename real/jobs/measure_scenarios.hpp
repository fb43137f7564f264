// This machine measured for the kernels and collectives of scenarios: `stepcast calibrate` without
// files.
#pragma once

#include <functional>

#include "real/launch/launch.hpp"
#include "sim/calibration/calibrated_files.hpp"
#include "sim/calibration/machine_request.hpp"

namespace real {

// Measures, fits, and writes device.yaml and cluster.yaml into the folder; then calls `done`, in
// the process of rank 0. Throws InputError for what is missing or cannot be measured, before
// anything is; std::invalid_argument as run_ranks() does.
RunResult measure_for_scenarios(const sim::MachineRequest& request,
                                const std::function<void(const sim::CalibratedFile&)>& done);

}  // namespace real
