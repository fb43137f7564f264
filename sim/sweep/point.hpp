// One forecast among many: the figures of a step that sweeps, sensitivities and curves compare.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/base/control.hpp"
#include "sim/report/report.hpp"
#include "sim/scenario/scenario_input.hpp"

namespace sim {

enum class LayoutMode : std::uint8_t { fixed, best };
constexpr auto words_of(LayoutMode) {
  return std::array{Word{LayoutMode::fixed, "fixed"}, Word{LayoutMode::best, "best"}};
}

struct PointResult {
  std::string problem;  // why there is no forecast; then the rest is empty
  std::string layout;   // "tp 8 x pp 4 x dp 16, 1f1b, ..."
  int gpus = 0;
  Duration step_time{};
  Duration shortest{}, longest{};  // that nine in ten such runs take; zero: no errors are known
  double tokens_per_second = 0;
  double tokens_per_second_per_gpu = 0;
  double mfu = 0;
  Breakdown breakdown;  // mean over the ranks
  Bytes memory{}, capacity{};
  std::vector<std::string> notes{};  // what followed the keys that are set on top
  bool told() const { return problem.empty(); }
  bool fits() const { return memory <= capacity; }
  Duration communication() const {  // that nothing hides
    return breakdown.exposed();
  }
  bool operator==(const PointResult&) const = default;
};

PointResult no_result(std::string why);

class Forecaster;

// The scenario under "section.key=value" overrides, simulated; with the fastest layout
// that fits in place of its own for LayoutMode::best. What is wrong with it becomes the problem of
// the result. Thread-safe. Throws Stopped.
PointResult forecast_point(const ScenarioInput& scenario, const std::vector<std::string>& overrides,
                           LayoutMode mode, const Control& control = {});
// The same with a forecaster that has kept the plan of the point before: for points that differ in
// the machine.
PointResult forecast_point(const ScenarioInput& scenario, const std::vector<std::string>& overrides,
                           LayoutMode mode, Forecaster& forecaster, const Control& control = {});

// Several of them, on the threads of the surrounding TBB arena; `done` hears of each. The result
// does not depend on the threads. Throws Stopped.
std::vector<PointResult> forecast_points(const ScenarioInput& scenario,
                                         const std::vector<std::vector<std::string>>& overrides,
                                         LayoutMode mode, const std::function<void()>& done = {},
                                         const Control& control = {});

}  // namespace sim
