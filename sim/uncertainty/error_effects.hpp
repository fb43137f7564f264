// ErrorEffects is the distribution of the effects whose sum is the error of a forecast: a normal
// distribution, as the published rows leave it, narrowed by runs that were measured.
#pragma once

#include <Eigen/Core>
#include <map>
#include <string>
#include <vector>

#include "sim/uncertainty/error_terms.hpp"

namespace sim {

struct AnchorRun;
struct TimeErrorModel;

class ErrorEffects {
 public:
  explicit ErrorEffects(const TimeErrorModel& model);

  // A run with this ln(measured / forecast); `variance`: of what no effect explains.
  void observe(const JobTraits& traits, double log_error, double variance);
  // A run of an anchor: the parts that were measured by themselves, then the step, which adds what
  // they leave open. `variance`: of each.
  void observe(const AnchorRun& run, double variance);
  // A part of the run by itself: one of parts_of_step.
  void observe_part(const JobTraits& traits, std::size_t part, double log_error, double variance);

  // How much of each effect a job has. Those that only jobs without a run have are left out.
  Eigen::VectorXd coefficients(const JobTraits& traits) const;
  double mean(const Eigen::VectorXd& coefficients) const { return coefficients.dot(mean_); }
  double variance(const Eigen::VectorXd& coefficients) const {
    return coefficients.dot(covariance_ * coefficients);
  }
  // The same effects, with one more for each category of the jobs that no run has.
  // unknown_variance() of them is then zero, and jobs that share a category share its effect.
  ErrorEffects with_unknown(const std::vector<JobTraits>& jobs) const;
  const Eigen::MatrixXd& covariance() const { return covariance_; }
  // Variance by a job's layout: none for one that has a run.
  double layout_variance(const JobTraits& traits) const;
  // Variance by a job's categories that no run has; the categories of `but` are left out.
  double unknown_variance(const JobTraits& traits) const;
  double unknown_variance(const JobTraits& traits, const JobTraits& but) const;
  // Categories of a job that no published row has.
  std::vector<std::string> unlike(const JobTraits& traits) const;

  double mean_of(ErrorSource source) const { return mean_[static_cast<Eigen::Index>(source)]; }
  double mean_of_job(const std::string& job) const;  // zero without a run of it
  // The effect of a job's layout on so many GPUs; zero without a run of it.
  double mean_of_layout(const JobTraits& traits) const;
  // The effects of categories that a job has, summed, and of a framework that is not named.
  double mean_of_categories(const JobTraits& traits) const;

 private:
  Eigen::Index place_of(const std::string& name) const;  // -1: there is none
  bool is_published(const std::string& category) const;
  std::vector<std::string> unknown(const JobTraits& traits) const;  // its categories without a run
  bool is_unmeasured(const JobTraits& traits) const;
  void add(const std::string& name, double variance);
  void add_effects_of(const JobTraits& traits);  // those that only its runs have
  void learn(const Eigen::VectorXd& coefficients, double log_error, double variance);
  // How much of the growth a job has, in a layout with a run; else nothing.
  double growth_coefficient(const JobTraits& traits) const;

  double job_variance_ = 0, layout_variance_ = 0, growth_variance_ = 0, unlike_variance_ = 0;
  std::map<std::string, int> first_gpus_;  // of the first run of each layout, by its name
  std::vector<std::string> published_;     // categories: they have no effect
  // The sources, with `job` for a job without a run; "unmeasured"; "unnamed"; of one's own runs
  // what is new: categories that are not published, "job NAME", "layout NAME" and "growth of layout
  // NAME". A layout without a run has no place: layout_variance().
  std::vector<std::string> names_;
  Eigen::VectorXd mean_;
  Eigen::MatrixXd covariance_;
};

}  // namespace sim
