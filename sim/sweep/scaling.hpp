// Scaling curves: the step on more and more GPUs, by more data-parallel replicas.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/sweep/point.hpp"

namespace sim {

// strong: the batch of the scenario on every number of GPUs. weak: the batch grows with them, from
// that of the scenario on the first.
enum class ScalingKind : std::uint8_t { strong, weak };
constexpr auto words_of(ScalingKind) {
  return std::array{Word{ScalingKind::strong, "strong"}, Word{ScalingKind::weak, "weak"}};
}

struct ScalingPoint {
  int gpus = 0;
  std::int64_t global_batch = 0;
  PointResult result;
  double efficiency = 0;  // tokens per second and GPU, of those on the first that was forecast
};

struct ScalingCurve {
  ScalingKind kind = ScalingKind::strong;
  std::vector<ScalingPoint> points;  // ascending GPUs
  // The fewest GPUs, between two points of the curve, on which the mean GPU waits for communication
  // that nothing hides for longer than it computes.
  std::optional<int> communication_bound_from;
};

struct ScalingSpecification {
  std::string path;
  std::vector<std::string> overrides;
  std::vector<int> gpus;  // ascending, at least one
  LayoutMode layout = LayoutMode::fixed;
};

// Throws InputError; Stopped.
std::vector<ScalingCurve> scaling_curves(const ScalingSpecification& specification,
                                         const std::vector<ScalingKind>& kinds,
                                         const std::function<void()>& done = {},
                                         const Control& control = {});

std::string scaling_table(const std::vector<ScalingCurve>& curves);
std::string scaling_json(const std::vector<ScalingCurve>& curves);
std::string scaling_csv(const std::vector<ScalingCurve>& curves);
std::string scaling_markdown(const std::vector<ScalingCurve>& curves);
// Tokens per second over GPUs, both axes logarithmic, with the line of perfect scaling.
std::string scaling_svg(const std::vector<ScalingCurve>& curves);

}  // namespace sim
