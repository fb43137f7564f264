// What is known of the effects that the error of a forecast is the sum of: a normal distribution,
// as the published rows leave it, narrowed by runs that were measured.
#pragma once

#include <Eigen/Core>
#include <string>
#include <vector>

#include "sim/uncertainty/error_terms.hpp"

namespace sim {

struct TimeErrorModel;

class ErrorEffects {
 public:
  explicit ErrorEffects(const TimeErrorModel& model);

  // A run with this ln(measured / forecast); `variance`: of what no effect explains.
  void observe(const JobTraits& traits, double log_error, double variance);

  // How much of each effect a job has. Those that only jobs without a run have are left out.
  Eigen::VectorXd coefficients(const JobTraits& traits) const;
  double mean(const Eigen::VectorXd& coefficients) const { return coefficients.dot(mean_); }
  double variance(const Eigen::VectorXd& coefficients) const {
    return coefficients.dot(covariance_ * coefficients);
  }
  // Of the categories of a job that no run has.
  double unknown_variance(const JobTraits& traits) const;
  // Those that no published row has.
  std::vector<std::string> unlike(const JobTraits& traits) const;

  double mean_of(ErrorSource source) const { return mean_[static_cast<Eigen::Index>(source)]; }
  double mean_of_job(const std::string& job) const;  // zero without a run of it
  // The effects of categories that a job has, summed.
  double mean_of_categories(const JobTraits& traits) const;

 private:
  Eigen::Index place_of(const std::string& name) const;  // -1: there is none
  bool is_published(const std::string& category) const;
  bool is_unmeasured(const JobTraits& traits) const;
  void add(const std::string& name, double variance);

  double job_variance_ = 0, category_variance_ = 0;
  // The sources, with `job` for a job without a run; "unmeasured"; the published categories; of
  // runs what is new: categories, "job NAME".
  std::vector<std::string> names_;
  Eigen::Index published_ = 0;  // how many of them are there without a run
  Eigen::VectorXd mean_;
  Eigen::MatrixXd covariance_;
};

}  // namespace sim
