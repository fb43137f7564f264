// How sure a forecast of a step's time is: an interval that nine in ten measured runs keep to, and
// the chance that one layout is faster than another. The figures are data,
// validation/time-error.yaml, which `stepcast validate time-error` fits to the measured rows.
#pragma once

#include <Eigen/Core>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/time_factors.hpp"
#include "sim/base/units.hpp"
#include "sim/uncertainty/anchor.hpp"
#include "sim/uncertainty/error_effects.hpp"
#include "sim/uncertainty/error_terms.hpp"
#include "sim/uncertainty/time_interval.hpp"

namespace sim {

// UnnamedError is how much longer a step takes whose framework is not named: the mean of
// ln(measured / forecast) over such sets, its deviation, and the sets that it rests on.
struct UnnamedError {
  double mean = 0, deviation = 0;
  int rows = 0, sets = 0;
};

// The fitted model. Deviations are standard deviations of ln(measured / forecast).
struct TimeErrorModel {
  double level = 0.9;     // share of runs that an interval is to hold
  double multiple = 1.6;  // half its width, in standard deviations: found by leaving sets out
  SourceVector deviation = SourceVector::Zero();
  // The growth of an error from a job's first run to one on eight times the GPUs, in one layout.
  double growth = 0;
  double unlike = 0;  // of a job with a category that no row has
  double rest =
      0;  // of the error that no effect explains, row by row: the scale of its Student's t
  double unmeasured = 0;  // of a device or a number format without a measured step
  UnnamedError unnamed{};
  std::vector<std::string> categories;  // of the rows
  int rows = 0, sets = 0;               // that it rests on

  // With f = 4 degrees of freedom, f / (f - 2) times the square of the scale.
  double rest_variance() const { return 2 * squared(rest); }
};

class TimeErrors {
 public:
  explicit TimeErrors(TimeErrorModel model);
  // Throws InputError. `unnamed_path`: validation/unnamed-error.yaml; empty: nothing is known of
  // frameworks that are not named.
  static TimeErrors load(const std::string& path, const std::string& unnamed_path = {});
  // The errors that remain, given measured runs, where forecasts have the factors that follow from
  // them.
  TimeErrors anchored(const Anchor& anchor) const;
  // Factors on the parts of a job's step, by the runs on the average: of its model, layout and
  // number of GPUs.
  TimeFactors factors(const JobTraits& traits) const;

  const TimeErrorModel& model() const { return model_; }
  const ErrorEffects& effects() const { return effects_; }
  int runs() const { return runs_; }  // that were measured, of an anchor
  TimeInterval interval(const JobTraits& traits) const;
  double half_width(const JobTraits& traits) const;  // half of it, of ln(time)
  // The mean and the variance of ln(measured / forecast).
  struct Moments {
    double mean = 0, variance = 0;
  };
  Moments moments(const JobTraits& traits) const;
  // That `a` is faster than `b`, two layouts of one model on one cluster, forecast at these times.
  double chance_faster(const JobTraits& a, Duration time_a, const JobTraits& b,
                       Duration time_b) const;
  // The mean of the true time over the forecast one.
  double mean_factor(const JobTraits& traits) const;
  // The mean cost of choosing each of these jobs instead of the one that is truly fastest, as a
  // share of that one's time. `jobs` and `times` in the same order.
  std::vector<double> regrets(const std::vector<JobTraits>& jobs,
                              const std::vector<Duration>& times) const;

 private:
  TimeErrorModel model_;
  ErrorEffects effects_;
  int runs_ = 0;
  JobTraits first_;  // with runs: the factors have the means of its categories
};

// The text of validation/time-error.yaml.
std::string time_error_yaml(const TimeErrorModel& model);

// The text of validation/unnamed-error.yaml.
std::string unnamed_error_yaml(const UnnamedError& error);

// The shipped figures, read once; nothing where the data folder has none.
const std::optional<TimeErrors>& shipped_time_errors();
// The errors of forecasts with an anchor, which may be null: then the shipped ones. Null without
// any.
const TimeErrors* time_errors_of(const std::shared_ptr<const TimeErrors>& anchored);

}  // namespace sim
