#include "sim/sweep/step_variability.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/check.hpp"
#include "sim/base/input_error.hpp"
#include "sim/base/random.hpp"
#include "sim/base/rounding.hpp"
#include "sim/config/change.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/sweep/drawn_points.hpp"
#include "sim/sweep/machine_parameters.hpp"

namespace sim {
namespace {

constexpr std::size_t knots = 8;  // shares of the fabric that are forecast
constexpr std::size_t draws = 20'000;
constexpr int drawn_allocations = 16;
constexpr double twentieth = 1.6448536269514722;  // deviations to the 5% and 95% quantile

using Overrides = std::vector<std::string>;

// The ranks of the first node are slow.
Overrides with_slow_node(const Overrides& overrides, int ranks, double factor) {
  std::string list;
  for (int rank = 0; rank < ranks; ++rank)
    list += fmt::format("{}{{rank: {}, factor: {}}}", rank > 0 ? ", " : "", rank, factor);
  Overrides all = overrides;
  set_override(all, "simulation.stragglers", fmt::format("[{}]", list));
  return all;
}

// Step times at shares of the fabric, ascending; straight between them in logarithms.
class Response {
 public:
  Response(std::vector<double> shares, std::vector<Duration> times)
      : shares_{std::move(shares)}, times_{std::move(times)} {
    SIM_CHECK(!shares_.empty() && shares_.size() == times_.size(), shares_.size());
  }
  double seconds_at(double share) const {
    const auto above = std::upper_bound(shares_.begin(), shares_.end(), share);
    if (above == shares_.begin()) return to_seconds(times_.front());
    if (above == shares_.end()) return to_seconds(times_.back());
    const auto i = static_cast<std::size_t>(above - shares_.begin());
    const double part = std::log(share / shares_[i - 1]) / std::log(shares_[i] / shares_[i - 1]);
    return to_seconds(times_[i - 1]) *
           std::pow(to_seconds(times_[i]) / to_seconds(times_[i - 1]), part);
  }

 private:
  std::vector<double> shares_;
  std::vector<Duration> times_;
};

// From the least share that any draw can have to the whole.
std::vector<double> shares_to_forecast(const Disturbance& disturbance) {
  constexpr double beyond = 2;  // of the distance to the low quantile: one draw in 2,000
  const double least = disturbance.fabric_share *
                       std::pow(disturbance.fabric_share_low / disturbance.fabric_share, beyond);
  if (least >= 1) return {1};
  std::vector<double> shares;
  for (std::size_t i = 0; i < knots; ++i)
    shares.push_back(std::pow(least, 1 - static_cast<double>(i) / (knots - 1)));
  shares.back() = 1;
  return shares;
}

// ln(share) is normal on either side of the median, of the width that the quantile there says.
double share_of(const Disturbance& disturbance, double normal) {
  const double quantile = normal < 0 ? disturbance.fabric_share_low : disturbance.fabric_share_high;
  const double width = std::abs(std::log(quantile / disturbance.fabric_share)) / twentieth;
  return std::min(1.0, disturbance.fabric_share * std::exp(width * normal));
}

struct Drawn {
  Duration mean{}, p5{}, p50{}, p95{}, p99{};
};

template <class Draw>
Drawn draw_steps(Draw draw) {
  std::vector<double> seconds;
  seconds.reserve(draws);
  double sum = 0;
  for (std::size_t i = 0; i < draws; ++i) {
    seconds.push_back(draw(i));
    sum += seconds.back();
  }
  std::sort(seconds.begin(), seconds.end());
  const auto at = [&](double share) {
    return duration_from_seconds(
        seconds[static_cast<std::size_t>(share * static_cast<double>(draws - 1))]);
  };
  return {duration_from_seconds(sum / static_cast<double>(draws)), at(0.05), at(0.5), at(0.95),
          at(0.99)};
}

const PointResult& checked(const PointResult& point, const std::string& path) {
  if (!point.told()) throw InputError{SourcePosition{path, 0, 0}, point.problem};
  return point;
}

// The time of a step on drawn allocations, over the scenario's own; {1} without other jobs.
std::vector<double> factors_of_allocations(const ScenarioInput& scenario,
                                           const Overrides& overrides, const StepVariability& of,
                                           const std::function<void()>& done,
                                           const Control& control) {
  if (of.disturbance.occupancy == 0) return {1};
  std::vector<Overrides> points;
  for (int seed = 1; seed <= drawn_allocations; ++seed)
    points.push_back(drawn_point(overrides, of.nodes,
                                 {.node_list = {},
                                  .kind = AllocationKind::fragmented,
                                  .occupancy = of.disturbance.occupancy,
                                  .seed = static_cast<std::uint64_t>(seed)}));
  std::vector<double> factors;
  for (const PointResult& point :
       forecast_points(scenario, points, LayoutMode::fixed, done, control))
    factors.push_back(to_seconds(checked(point, scenario.path).step_time) /
                      to_seconds(of.undisturbed.step_time));
  return factors;
}

}  // namespace

StepVariability step_variability(const ScenarioInput& scenario, const Overrides& overrides,
                                 const std::function<void()>& done, const Control& control) {
  const Scenario loaded = load_scenario(scenario.with(overrides));
  const int ranks = loaded.layout.world_size();
  const int per_node = std::min(ranks, loaded.cluster.gpus_per_node());
  StepVariability made;
  made.path = scenario.path;
  made.overrides = overrides;
  made.nodes = divide_up(ranks, per_node);
  made.disturbance = read_disturbance(scenario, overrides, made.nodes);
  const Disturbance& by = made.disturbance;
  made.slow_chance = 1 - std::pow(1 - by.slow_nodes, made.nodes);

  const std::vector<MachineParameter> parameters =
      machine_parameters(loaded.cluster_path, loaded.changes);
  const auto nics = std::find_if(
      parameters.begin(), parameters.end(),
      [](const MachineParameter& one) { return one.name == "NIC bandwidth" && !one.keys.empty(); });
  std::vector<double> shares = shares_to_forecast(by);
  if (nics == parameters.end() || made.nodes < 2) shares = {1};
  const bool slow = made.slow_chance > 0 && by.slow_factor > 1;

  // The whole fabric is the scenario as it is, with the curves that were measured on it.
  std::vector<Overrides> points;
  for (const bool with_slow : {false, true}) {
    if (with_slow && !slow) continue;
    const Overrides base =
        with_slow ? with_slow_node(overrides, per_node, by.slow_factor) : overrides;
    for (const double share : shares)
      points.push_back(share < 1 ? scaled(base, *nics, share) : base);
  }
  const std::vector<PointResult> results =
      forecast_points(scenario, points, LayoutMode::fixed, done, control);
  const auto response = [&](std::size_t first) {
    std::vector<Duration> times;
    for (std::size_t i = 0; i < shares.size(); ++i)
      times.push_back(checked(results[first + i], scenario.path).step_time);
    return Response{shares, std::move(times)};
  };
  const Response usual = response(0);
  const Response slowed = slow ? response(shares.size()) : usual;
  made.undisturbed = results[shares.size() - 1];

  const std::uint64_t seed = loaded.options.seed;
  const auto share = [&](std::size_t i) { return share_of(by, standard_normal(seed, 1, i)); };
  const auto is_slow = [&](std::size_t i) { return uniform(seed, 2, i) < made.slow_chance; };
  const std::vector<double> factors =
      factors_of_allocations(scenario, overrides, made, done, control);
  const auto factor = [&](std::size_t i) {
    if (factors.size() == 1) return factors.front();
    const double drawn = uniform(seed, 3, i) * static_cast<double>(factors.size());
    return factors[std::min(static_cast<std::size_t>(drawn), factors.size() - 1)];
  };
  const Drawn steps = draw_steps([&](std::size_t i) {
    return (is_slow(i) ? slowed : usual).seconds_at(share(i)) * factor(i);
  });
  made.mean = steps.mean, made.p5 = steps.p5, made.p50 = steps.p50, made.p95 = steps.p95;
  made.p99 = steps.p99;
  made.fabric_alone = draw_steps([&](std::size_t i) { return usual.seconds_at(share(i)); }).mean;
  made.slow_alone =
      draw_steps([&](std::size_t i) { return (is_slow(i) ? slowed : usual).seconds_at(1); }).mean;
  made.allocation_alone =
      factors.size() == 1
          ? made.undisturbed.step_time
          : draw_steps([&](std::size_t i) { return usual.seconds_at(1) * factor(i); }).mean;
  return made;
}

}  // namespace sim
