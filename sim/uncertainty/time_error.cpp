#include "sim/uncertainty/time_error.hpp"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/base/random.hpp"
#include "sim/config/data_folder.hpp"
#include "sim/uncertainty/normal.hpp"

namespace sim {
namespace {

// Limits of the factor that one's own few runs give a part of the step.
constexpr double least_anchor_factor = 0.25, most_anchor_factor = 4;

}  // namespace

TimeErrors::TimeErrors(TimeErrorModel model) : model_{std::move(model)}, effects_{model_} {}

TimeErrors TimeErrors::anchored(const Anchor& anchor) const {
  SIM_CHECK(!anchor.runs.empty(), anchor.device);
  TimeErrors made = *this;
  for (const AnchorRun& run : anchor.runs)
    made.effects_.observe(run, model_.rest_variance());
  if (runs_ == 0) made.first_ = anchor.runs.front().traits;
  made.runs_ += static_cast<int>(anchor.runs.size());
  return made;
}

TimeFactors TimeErrors::factors(const JobTraits& traits) const {
  const double of_all = effects_.mean_of(ErrorSource::machine) +
                        effects_.mean_of_categories(first_) + effects_.mean_of_job(traits.job) +
                        effects_.mean_of_layout(traits) +
                        effects_.mean_of(ErrorSource::scale) * scale_coefficient(traits.gpus);
  const auto factor = [&](double effect) {
    return std::clamp(std::exp(of_all + effect), least_anchor_factor, most_anchor_factor);
  };
  const auto of = [&](ErrorSource source) { return factor(effects_.mean_of(source)); };
  return {.products = factor(0),
          .memory_kernels = of(ErrorSource::memory_kernels),
          .host = of(ErrorSource::host),
          .tensor = of(ErrorSource::tensor),
          .data = of(ErrorSource::data),
          .pipeline = of(ErrorSource::pipeline)};
}

TimeErrors::Moments TimeErrors::moments(const JobTraits& traits) const {
  const Eigen::VectorXd coefficients = effects_.coefficients(traits);
  return {.mean = effects_.mean_of_categories(traits) -
                  (runs_ > 0 ? effects_.mean_of_categories(first_) : 0),
          .variance = effects_.variance(coefficients) + effects_.unknown_variance(traits) +
                      effects_.layout_variance(traits) + model_.rest_variance()};
}

double TimeErrors::half_width(const JobTraits& traits) const {
  return model_.multiple * std::sqrt(moments(traits).variance);
}

TimeInterval TimeErrors::interval(const JobTraits& traits) const {
  const Moments of = moments(traits);
  const double half = model_.multiple * std::sqrt(of.variance);
  return {.low = std::exp(of.mean - half),
          .high = std::exp(of.mean + half),
          .level = model_.level,
          .rows = traits.named ? model_.rows : model_.unnamed.rows,
          .sets = traits.named ? model_.sets : model_.unnamed.sets,
          .own_runs = runs_,
          .named = traits.named,
          .unlike = effects_.unlike(traits)};
}

double TimeErrors::chance_faster(const JobTraits& a, Duration time_a, const JobTraits& b,
                                 Duration time_b) const {
  // Terms that both jobs share fall out: the machine, the job, most categories.
  const Eigen::VectorXd difference = effects_.coefficients(a) - effects_.coefficients(b);
  const bool one_layout = a.job == b.job && a.layout == b.layout;
  const double layouts = one_layout ? 0 : effects_.layout_variance(a) + effects_.layout_variance(b);
  const double variance = effects_.variance(difference) + layouts + 2 * model_.rest_variance() +
                          effects_.unknown_variance(a, b) + effects_.unknown_variance(b, a);
  return normal_below(std::log(to_seconds(time_b) / to_seconds(time_a)) / std::sqrt(variance));
}

double TimeErrors::mean_factor(const JobTraits& traits) const {
  const Moments of = moments(traits);
  return std::exp(of.mean + of.variance / 2);
}

// The mean of the shortest is drawn. Its ratio to that of the first job varies little, since what
// the jobs have in common is in both; all else is in closed form.
std::vector<double> TimeErrors::regrets(const std::vector<JobTraits>& jobs,
                                        const std::vector<Duration>& times) const {
  SIM_CHECK(jobs.size() == times.size() && !jobs.empty(), jobs.size(), times.size());
  constexpr int draws = 2000;
  const ErrorEffects effects = effects_.with_unknown(jobs);
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> parts{effects.covariance()};
  const Eigen::MatrixXd root =
      parts.eigenvectors() * parts.eigenvalues().cwiseMax(0).cwiseSqrt().asDiagonal();
  const auto effect_count = static_cast<std::size_t>(root.cols());
  std::vector<Eigen::VectorXd> spread;
  std::vector<double> middle, expected, alone;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    spread.emplace_back(root.transpose() * effects.coefficients(jobs[i]));
    middle.push_back(std::log(to_seconds(times[i])) + moments(jobs[i]).mean);
    expected.push_back(to_seconds(times[i]) * mean_factor(jobs[i]));
    alone.push_back(std::sqrt(effects_.layout_variance(jobs[i]) + model_.rest_variance()));
  }
  double first = 0, shortest = 0;
  Eigen::VectorXd common(root.cols());
  for (std::uint64_t draw = 0; draw < draws; ++draw) {
    for (std::size_t k = 0; k < effect_count; ++k)
      common[static_cast<Eigen::Index>(k)] = standard_normal(1, draw, k);
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      const double own = alone[i] * standard_normal(2, draw, i);
      const double time = std::exp(middle[i] + spread[i].dot(common) + own);
      if (i == 0) first += time;
      least = std::min(least, time);
    }
    shortest += least;
  }
  std::vector<double> regrets;
  for (const double time : expected)
    regrets.push_back(std::max(0.0, time / (expected.front() * shortest / first) - 1));
  return regrets;
}

const std::optional<TimeErrors>& shipped_time_errors() {
  static const std::optional<TimeErrors> errors = []() -> std::optional<TimeErrors> {
    const std::string path = data_folder() + "/validation/time-error.yaml";
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) return std::nullopt;
    const std::string unnamed = data_folder() + "/validation/unnamed-error.yaml";
    return TimeErrors::load(path, std::filesystem::exists(unnamed, ignored) ? unnamed : "");
  }();
  return errors;
}

const TimeErrors* time_errors_of(const std::shared_ptr<const TimeErrors>& anchored) {
  if (anchored) return anchored.get();
  const std::optional<TimeErrors>& shipped = shipped_time_errors();
  return shipped ? &*shipped : nullptr;
}

}  // namespace sim
