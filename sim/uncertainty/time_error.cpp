#include "sim/uncertainty/time_error.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "sim/config/data_folder.hpp"

namespace sim {
namespace {

SourceMatrix squares(const SourceVector& deviation) {
  return deviation.cwiseAbs2().asDiagonal();
}

std::optional<Eigen::Index> place_of(const TimeErrorModel& model, const std::string& category) {
  const auto found = std::find(model.categories.begin(), model.categories.end(), category);
  if (found == model.categories.end()) return std::nullopt;
  return static_cast<Eigen::Index>(found - model.categories.begin());
}

SourceMatrix matrix_of(const SourceSpread& spread) {
  SourceMatrix made;
  for (Eigen::Index i = 0; i < made.rows(); ++i)
    for (Eigen::Index k = 0; k < made.cols(); ++k)
      made(i, k) = spread[static_cast<std::size_t>(i)][static_cast<std::size_t>(k)];
  return made;
}

// A format or machine whose rates no training step has checked.
bool is_rate(const std::string& category) {
  return category.starts_with("dtype ") || category.starts_with("generation ");
}

TimeErrors::Moments of_categories(const TimeErrorModel& model, const JobTraits& traits) {
  TimeErrors::Moments made;
  Eigen::VectorXd chosen = Eigen::VectorXd::Zero(model.mean.size());
  bool unmeasured = !traits.validated;
  for (const std::string& category : categories_of(traits)) {
    if (const std::optional<Eigen::Index> place = place_of(model, category)) {
      chosen[*place] = 1;
    } else {
      made.variance += model.category * model.category;
      unmeasured = unmeasured || is_rate(category);
    }
  }
  made.mean = chosen.dot(model.mean);
  made.variance += chosen.dot(model.covariance * chosen);
  if (unmeasured) made.variance += model.unmeasured * model.unmeasured;
  return made;
}

// Phi, of the standard normal distribution.
double normal_probability(double x) {
  return std::erfc(-x / std::sqrt(2.0)) / 2;
}

}  // namespace

TimeErrors::Moments TimeErrors::moments(const JobTraits& traits,
                                        const AnchoredError* anchor) const {
  const SourceVector coefficients = source_coefficients(traits);
  const double rest = model_.rest * model_.rest;
  if (!anchor) {
    Moments made = of_categories(model_, traits);
    made.variance += coefficients.dot(squares(model_.deviation) * coefficients) + rest;
    return made;
  }
  // The runs have told what the categories say of others; only their machine's own rest is open.
  Moments made{.mean = 0,
               .variance = coefficients.dot(matrix_of(anchor->covariance) * coefficients) + rest};
  if (traits.job != anchor->job) {
    const double job = model_.deviation[static_cast<Eigen::Index>(ErrorSource::job)];
    made.variance += job * job;
  }
  return made;
}

TimeInterval TimeErrors::interval(const JobTraits& traits, const AnchoredError* anchor) const {
  const Moments of = moments(traits, anchor);
  const double half = model_.multiple * std::sqrt(of.variance);
  TimeInterval made{.low = std::exp(of.mean - half),
                    .high = std::exp(of.mean + half),
                    .level = model_.level,
                    .rows = model_.rows,
                    .sets = model_.sets,
                    .own_runs = anchor ? anchor->runs : 0,
                    .unlike = {}};
  for (const std::string& category : categories_of(traits))
    if (!place_of(model_, category)) made.unlike.push_back(category);
  return made;
}

double TimeErrors::chance_faster(const JobTraits& a, Duration time_a, const JobTraits& b,
                                 Duration time_b, const AnchoredError* anchor) const {
  // What the two have in common falls out: the machine, the job, their categories but a schedule.
  const SourceVector difference = source_coefficients(a) - source_coefficients(b);
  const SourceMatrix covariance =
      anchor ? matrix_of(anchor->covariance) : squares(model_.deviation);
  double variance = difference.dot(covariance * difference) + 2 * model_.rest * model_.rest;
  if (a.schedule != b.schedule) variance += 2 * model_.category * model_.category;
  return normal_probability(std::log(to_seconds(time_b) / to_seconds(time_a)) /
                            std::sqrt(variance));
}

const std::optional<TimeErrors>& shipped_time_errors() {
  static const std::optional<TimeErrors> errors = []() -> std::optional<TimeErrors> {
    const std::string path = data_folder() + "/validation/time-error.yaml";
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) return std::nullopt;
    return TimeErrors::load(path);
  }();
  return errors;
}

}  // namespace sim
