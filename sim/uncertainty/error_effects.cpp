#include "sim/uncertainty/error_effects.hpp"

#include <algorithm>

#include "sim/uncertainty/step_parts.hpp"
#include "sim/uncertainty/time_error.hpp"

namespace sim {
namespace {

constexpr auto source_count = static_cast<Eigen::Index>(error_source_count);
constexpr auto job_place = static_cast<Eigen::Index>(ErrorSource::job);
constexpr auto layout_place = static_cast<Eigen::Index>(ErrorSource::layout);
constexpr Eigen::Index unmeasured_place = source_count;
constexpr Eigen::Index unnamed_place = source_count + 1;

std::string name_of_job(const std::string& job) {
  return "job " + job;
}

std::string name_of_layout(const JobTraits& traits) {
  return "layout " + traits.job + ": " + traits.layout;
}

std::string name_of_growth(const std::string& layout) {
  return "growth of " + layout;
}

// A format or machine whose rates no training step has checked.
bool is_rate(const std::string& category) {
  return (category.starts_with("dtype ") && category.find(" on ") == std::string::npos) ||
         category.starts_with("generation ");
}

}  // namespace

ErrorEffects::ErrorEffects(const TimeErrorModel& model)
    : job_variance_{squared(model.deviation[job_place])},
      layout_variance_{squared(model.deviation[layout_place])},
      growth_variance_{squared(model.growth)},
      unlike_variance_{squared(model.unlike)},
      published_{model.categories} {
  for (const auto& source : words_of(ErrorSource{}))
    names_.emplace_back(source.text);
  names_.emplace_back("unmeasured");
  names_.emplace_back("unnamed");
  const auto effects = static_cast<Eigen::Index>(names_.size());
  mean_ = Eigen::VectorXd::Zero(effects);
  covariance_ = Eigen::MatrixXd::Zero(effects, effects);
  covariance_.diagonal().head(source_count) = model.deviation.cwiseAbs2();
  covariance_(unmeasured_place, unmeasured_place) = squared(model.unmeasured);
  mean_[unnamed_place] = model.unnamed.mean;
  covariance_(unnamed_place, unnamed_place) = squared(model.unnamed.deviation);
}

Eigen::Index ErrorEffects::place_of(const std::string& name) const {
  const auto found = std::find(names_.begin() + unnamed_place + 1, names_.end(), name);
  return found == names_.end() ? -1 : static_cast<Eigen::Index>(found - names_.begin());
}

bool ErrorEffects::is_published(const std::string& category) const {
  return std::find(published_.begin(), published_.end(), category) != published_.end();
}

bool ErrorEffects::is_unmeasured(const JobTraits& traits) const {
  const std::vector<std::string> categories = categories_of(traits);
  return !traits.validated ||
         std::any_of(categories.begin(), categories.end(), [&](const std::string& category) {
           return is_rate(category) && !is_published(category);
         });
}

std::vector<std::string> ErrorEffects::unlike(const JobTraits& traits) const {
  std::vector<std::string> found = categories_of(traits);
  std::erase_if(found, [&](const std::string& category) { return is_published(category); });
  return found;
}

void ErrorEffects::add(const std::string& name, double variance) {
  if (place_of(name) >= 0) return;
  names_.push_back(name);
  const Eigen::Index size = mean_.size();
  mean_.conservativeResize(size + 1);
  mean_[size] = 0;
  covariance_.conservativeResize(size + 1, size + 1);
  covariance_.row(size).setZero();
  covariance_.col(size).setZero();
  covariance_(size, size) = variance;
}

Eigen::VectorXd ErrorEffects::coefficients(const JobTraits& traits) const {
  Eigen::VectorXd made = Eigen::VectorXd::Zero(mean_.size());
  made.head(source_count) = source_coefficients(traits);
  made[layout_place] = 0;
  if (is_unmeasured(traits)) made[unmeasured_place] = 1;
  if (!traits.named) made[unnamed_place] = 1;
  for (const std::string& category : categories_of(traits))
    if (const Eigen::Index place = place_of(category); place >= 0) made[place] = 1;
  if (const Eigen::Index place = place_of(name_of_job(traits.job)); place >= 0) {
    made[job_place] = 0;
    made[place] = 1;
  }
  const std::string layout = name_of_layout(traits);
  if (const Eigen::Index place = place_of(layout); place >= 0) {
    made[place] = 1;
    made[place_of(name_of_growth(layout))] = growth_coefficient(traits);
  }
  return made;
}

double ErrorEffects::growth_coefficient(const JobTraits& traits) const {
  const auto first = first_gpus_.find(name_of_layout(traits));
  if (first == first_gpus_.end()) return 0;
  return scale_coefficient(traits.gpus) - scale_coefficient(first->second);
}

double ErrorEffects::layout_variance(const JobTraits& traits) const {
  return place_of(name_of_layout(traits)) >= 0 ? 0 : layout_variance_;
}

std::vector<std::string> ErrorEffects::unknown(const JobTraits& traits) const {
  std::vector<std::string> found = unlike(traits);
  std::erase_if(found, [&](const std::string& category) { return place_of(category) >= 0; });
  return found;
}

ErrorEffects ErrorEffects::with_unknown(const std::vector<JobTraits>& jobs) const {
  ErrorEffects made = *this;
  for (const JobTraits& job : jobs) {
    const std::vector<std::string> found = unknown(job);
    for (const std::string& category : found)
      made.add(category, unlike_variance_ / static_cast<double>(found.size()));
  }
  return made;
}

double ErrorEffects::unknown_variance(const JobTraits& traits) const {
  return unknown(traits).empty() ? 0 : unlike_variance_;
}

double ErrorEffects::unknown_variance(const JobTraits& traits, const JobTraits& but) const {
  std::vector<std::string> found = unknown(traits);
  for (const std::string& category : categories_of(but))
    std::erase(found, category);
  return found.empty() ? 0 : unlike_variance_;
}

double ErrorEffects::mean_of_job(const std::string& job) const {
  const Eigen::Index place = place_of(name_of_job(job));
  return place < 0 ? 0 : mean_[place];
}

double ErrorEffects::mean_of_layout(const JobTraits& traits) const {
  const std::string layout = name_of_layout(traits);
  const Eigen::Index place = place_of(layout);
  if (place < 0) return 0;
  return mean_[place] + growth_coefficient(traits) * mean_[place_of(name_of_growth(layout))];
}

double ErrorEffects::mean_of_categories(const JobTraits& traits) const {
  double sum = is_unmeasured(traits) ? mean_[unmeasured_place] : 0;
  if (!traits.named) sum += mean_[unnamed_place];
  for (const std::string& category : categories_of(traits))
    if (const Eigen::Index place = place_of(category); place >= 0) sum += mean_[place];
  return sum;
}

void ErrorEffects::add_effects_of(const JobTraits& traits) {
  const std::string layout = name_of_layout(traits);
  add(name_of_job(traits.job), job_variance_);
  add(layout, layout_variance_);
  add(name_of_growth(layout), growth_variance_);
  first_gpus_.emplace(layout, traits.gpus);
  const std::vector<std::string> new_ones = unknown(traits);
  for (const std::string& category : new_ones)
    add(category, unlike_variance_ / static_cast<double>(new_ones.size()));
}

// A normal distribution given the value of one sum of its parts (Rasmussen & Williams 2006,
// Gaussian Processes for Machine Learning, appendix A.2).
void ErrorEffects::learn(const Eigen::VectorXd& coefficients, double log_error, double variance) {
  const Eigen::VectorXd with_all = covariance_ * coefficients;
  const double total = coefficients.dot(with_all) + variance;
  mean_ += with_all * ((log_error - mean(coefficients)) / total);
  covariance_ -= with_all * with_all.transpose() / total;
}

void ErrorEffects::observe(const JobTraits& traits, double log_error, double variance) {
  add_effects_of(traits);
  learn(coefficients(traits), log_error, variance);
}

void ErrorEffects::observe(const AnchorRun& run, double variance) {
  for (std::size_t part = 0; part < parts_of_step.size(); ++part)
    if (run.parts[part]) observe_part(run.traits, part, *run.parts[part], variance);
  observe(run.traits, run.log_error, variance);
}

// A step that is made of the part alone.
void ErrorEffects::observe_part(const JobTraits& traits, std::size_t part, double log_error,
                                double variance) {
  JobTraits alone = traits;
  alone.shares = {};
  alone.shares.*parts_of_step[part].share = 1;
  add_effects_of(traits);
  learn(coefficients(alone), log_error, variance);
}

}  // namespace sim
