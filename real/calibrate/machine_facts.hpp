// Facts about this machine, for files that outlive it.
#pragma once

#include <string>

#include "real/calibrate/measure_machine.hpp"
#include "real/launch/world.hpp"

namespace real {

std::string date_and_time();  // ISO 8601, UTC
std::string host_name();
std::string processor_name();  // as /proc/cpuinfo has it
std::string machine_name();    // "box (Intel Xeon)": host and processor
// "box: Intel Xeon, 2 cores"; of cuda with the GPUs.
std::string machine_line(MeasuredBackend backend);
// The GPU of a rank: neighbours on a machine share one.
int device_of(const World& world, int ranks_per_gpu);

}  // namespace real
