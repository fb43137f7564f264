// Device and cluster files of a machine that was measured: fitted, written, read back.
#pragma once

#include <string>
#include <vector>

#include "sim/calibration/measurements.hpp"
#include "sim/topology/device.hpp"

namespace sim {

struct CalibratedFile {
  std::string summary;             // for people: residuals of the fit, or the curves
  std::vector<std::string> notes;  // unused measurements, and notes of the base on its nodes
};

// Writes the device file `path`; what was not measured is `base`'s. Throws InputError.
CalibratedFile write_device_file(const std::string& path, const Device& base,
                                 const MeasuredMachine& machine);

struct ClusterTarget {
  std::string path;         // to write
  std::string base;         // file of the cluster that describes the machine
  std::string base_name{};  // as the user says it, for errors
  std::string device{};     // device file of its GPUs; empty: the base's
};
// Writes the base cluster with the measured curves. Throws InputError where no collective was
// measured that a curve could hold, and as require_routes() does.
CalibratedFile write_cluster_file(const ClusterTarget& target, const MeasuredMachine& machine);

}  // namespace sim
