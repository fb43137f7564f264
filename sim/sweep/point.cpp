#include "sim/sweep/point.hpp"

#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include <memory>
#include <mutex>

#include "sim/base/input_error.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/layout/layout_text.hpp"
#include "sim/scenario/sources.hpp"
#include "sim/search/search.hpp"

namespace sim {
namespace {

std::string first_problem(const InputError& error) {
  const Problem& first = error.problems().front();
  return error.problems().size() == 1
             ? first.what
             : fmt::format("{} (and {} more)", first.what, error.problems().size() - 1);
}

PointResult result_of(const Scenario& scenario, Forecaster& forecaster, const Control& control) {
  const Report report = forecaster.run(scenario, {}, control).report;
  PointResult result{.problem = {},
                     .layout = layout_text(scenario.layout, LayoutForm::summary),
                     .gpus = report.ranks,
                     .step_time = report.step_time,
                     .shortest = {},
                     .longest = {},
                     .tokens_per_second = report.tokens_per_second,
                     .tokens_per_second_per_gpu = report.tokens_per_second_per_gpu,
                     .mfu = report.mfu,
                     .breakdown = report.breakdown,
                     .memory = report.worst_memory().total,
                     .capacity = report.worst_memory().capacity};
  if (report.interval) {
    result.shortest = report.interval->shortest(report.step_time);
    result.longest = report.interval->longest(report.step_time);
  }
  for (const Followed& followed : scenario.followed)
    result.notes.push_back(text_of(followed));
  return result;
}

// Lends a forecaster to each point that is being forecast, so that a plan is kept over points.
class Forecasters {
 public:
  std::unique_ptr<Forecaster> take() {
    const std::scoped_lock lock{mutex_};
    if (free_.empty()) return std::make_unique<Forecaster>();
    std::unique_ptr<Forecaster> last = std::move(free_.back());
    free_.pop_back();
    return last;
  }
  void give(std::unique_ptr<Forecaster> forecaster) {
    const std::scoped_lock lock{mutex_};
    free_.push_back(std::move(forecaster));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Forecaster>> free_;
};

}  // namespace

PointResult no_result(std::string why) {
  PointResult result;
  result.problem = std::move(why);
  return result;
}

PointResult forecast_point(const ScenarioInput& scenario, const std::vector<std::string>& overrides,
                           LayoutMode mode, const Control& control) {
  Forecaster forecaster;
  return forecast_point(scenario, overrides, mode, forecaster, control);
}

PointResult forecast_point(const ScenarioInput& scenario, const std::vector<std::string>& overrides,
                           LayoutMode mode, Forecaster& forecaster, const Control& control) {
  try {
    if (mode == LayoutMode::fixed)
      return result_of(load_scenario(scenario.with(overrides)), forecaster, control);
    const std::optional<Scenario> best = best_scenario(scenario.with(overrides), control);
    return best ? result_of(*best, forecaster, control) : no_result("no layout fits");
  } catch (const InputError& error) {
    return no_result(first_problem(error));
  } catch (const std::invalid_argument& error) {
    return no_result(error.what());  // an algorithm that a group cannot use
  }
}

std::vector<PointResult> forecast_points(const ScenarioInput& scenario,
                                         const std::vector<std::vector<std::string>>& overrides,
                                         LayoutMode mode, const std::function<void()>& done,
                                         const Control& control) {
  std::vector<PointResult> results(overrides.size());
  Forecasters forecasters;
  tbb::parallel_for(std::size_t{0}, overrides.size(), [&](std::size_t i) {
    // A phase of its own is too small to tell; who asks hears of every point.
    std::unique_ptr<Forecaster> forecaster = forecasters.take();
    results[i] = forecast_point(scenario, overrides[i], mode, *forecaster, {.stop = control.stop});
    forecasters.give(std::move(forecaster));
    if (done) done();
  });
  return results;
}

}  // namespace sim
