// How sure a forecast of a step's time is: an interval that nine in ten measured runs keep to, and
// the chance that one layout is faster than another. The figures are data,
// validation/time-error.yaml, which `stepcast validate time-error` fits to the measured rows.
#pragma once

#include <Eigen/Core>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/uncertainty/error_terms.hpp"
#include "sim/uncertainty/time_interval.hpp"

namespace sim {

// The fitted model. Deviations are standard deviations of ln(measured / forecast).
struct TimeErrorModel {
  double level = 0.9;     // share of runs that an interval is to hold
  double multiple = 1.6;  // half its width, in standard deviations: found by leaving sets out
  SourceVector deviation = SourceVector::Zero();
  double category = 0;    // of a category without a row
  double rest = 0;        // of what nothing explains, row by row
  double unmeasured = 0;  // of a device or a number format without a measured step
  std::vector<std::string> categories;
  Eigen::VectorXd mean;        // of their effects
  Eigen::MatrixXd covariance;  // of the same
  int rows = 0, sets = 0;      // that it rests on
};

class TimeErrors {
 public:
  explicit TimeErrors(TimeErrorModel model) : model_{std::move(model)} {}
  // Throws InputError.
  static TimeErrors load(const std::string& path);

  const TimeErrorModel& model() const { return model_; }
  // `anchor`: may be null.
  TimeInterval interval(const JobTraits& traits, const AnchoredError* anchor = nullptr) const;
  // The mean and the variance of ln(measured / forecast).
  struct Moments {
    double mean = 0, variance = 0;
  };
  Moments moments(const JobTraits& traits, const AnchoredError* anchor = nullptr) const;
  // That `a` is faster than `b`, two layouts of one model on one cluster, forecast at these times.
  double chance_faster(const JobTraits& a, Duration time_a, const JobTraits& b, Duration time_b,
                       const AnchoredError* anchor = nullptr) const;

 private:
  TimeErrorModel model_;
};

// The text of validation/time-error.yaml.
std::string time_error_yaml(const TimeErrorModel& model);

// The shipped figures, read once; nothing where the data folder has none.
const std::optional<TimeErrors>& shipped_time_errors();

}  // namespace sim
