// From measurements to the parameters of a device: what was measured is fitted (robust, bounded;
// sim/cost/kernel_fit.hpp), what was not is taken from a base device and marked so.
#pragma once

#include <string>
#include <vector>

#include "sim/calibration/measurements.hpp"
#include "sim/cost/kernel_fit.hpp"
#include "sim/topology/device.hpp"

namespace sim {

enum class FitProvenance : std::uint8_t {
  fitted,    // least squares over points of this machine
  measured,  // one figure, as measured
  base,      // of the base device file
};
constexpr auto words_of(FitProvenance) {
  return std::array{Word{FitProvenance::fitted, "fitted"},
                    Word{FitProvenance::measured, "measured"}, Word{FitProvenance::base, "base"}};
}

// A key of the device file ("gemm.bf16", "memory_kernels.optimizer") and where it comes from.
struct ParameterOrigin {
  std::string key;
  FitProvenance provenance = FitProvenance::base;
  int points = 0;
};

struct FitResidual {
  std::string what;  // "gemm bf16", "attention forward", "elementwise", "communication"
  FitError error;    // of the formula, on the points that it was fitted to
};

struct DeviceCalibration {
  std::string base_name;
  Device device;  // with measured_kernels: what was measured exactly beats the formula
  std::vector<ParameterOrigin> origins;
  std::vector<FitResidual> residuals;
  std::vector<std::string> notes;  // measurements that no parameter could use, and why
};

// Throws InputError where a measurement cannot be (a shape without size, no time).
DeviceCalibration calibrate_device(const Device& base, const MeasuredMachine& machine);

// As a file that load_device() reads back to the same device: date, machine, versions, points and
// residuals (median, p90, worst) in comments and in `origin`.
std::string device_yaml(const DeviceCalibration& calibration, const MeasuredMachine& machine);

// The residuals for people, a line each.
std::string residual_table(const DeviceCalibration& calibration);

// One core per rank of a host, as a base to calibrate: what no measurement covers is a round figure
// that is printed as such. `gemm` has fp32 only.
Device host_base_device();

}  // namespace sim
