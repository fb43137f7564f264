#include "sim/sweep/allocation_study.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/input_error.hpp"
#include "sim/base/random.hpp"
#include "sim/base/rounding.hpp"
#include "sim/config/change.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/sweep/drawn_points.hpp"
#include "sim/topology/cluster_data.hpp"
#include "sim/topology/node_list.hpp"

namespace sim {
namespace {

using Overrides = std::vector<std::string>;

constexpr std::size_t swaps_at_once = 8;  // of the local search, on any number of threads
constexpr std::uint64_t search_seed = 1;

std::vector<std::string> names_of(const Cluster& cluster, std::span<const int> places) {
  std::vector<std::string> names;
  for (const int place : places)
    names.push_back(cluster.node_name(place));
  return names;
}

Overrides at_places(Overrides base, const Cluster& cluster, std::span<const int> places) {
  set_override(base, "cluster.node_list", node_list_of(names_of(cluster, places)));
  return base;
}

const PointResult& told(const PointResult& point, const std::string& path) {
  if (!point.told()) throw InputError{SourcePosition{path, 0, 0}, point.problem};
  return point;
}

StepSpread spread_of(const std::vector<PointResult>& points, const std::string& path) {
  StepSpread made;
  for (const PointResult& point : points)
    made.steps.push_back(told(point, path).step_time);
  std::vector<Duration> sorted = made.steps;
  std::sort(sorted.begin(), sorted.end());
  const auto at = [&](double share) {
    return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
  };
  made.least = sorted.front(), made.most = sorted.back();
  made.p10 = at(0.1), made.median = at(0.5), made.p90 = at(0.9);
  return made;
}

// The fabric's links among the busiest of the step.
std::vector<FabricLoad> fabric_loads(const Report& report, const Scenario& scenario) {
  std::vector<FabricLoad> loads;
  for (std::size_t i = 0; i < report.busiest_links.size(); ++i) {
    const LinkLoad& load = report.busiest_links[i];
    if (scenario.cluster.link(load.link).kind != LinkKind::fabric) continue;
    const double most =
        report.link_capacities[i].in_bytes_per_second() * to_seconds(report.step_time);
    loads.push_back({.link = report.link_names[i],
                     .alike = load.represents,
                     .carried = load.carried,
                     .use = most > 0 ? static_cast<double>(load.carried.count()) / most : 0});
  }
  return loads;
}

// Studies one scenario; a class to share it between the questions.
class Study {
 public:
  Study(const ScenarioInput& scenario, const Overrides& overrides,
        const AllocationQuestion& question, const std::function<void()>& done,
        const Control& control)
      : input_{scenario},
        overrides_{overrides},
        question_{question},
        done_{done},
        control_{control},
        loaded_{load_scenario(scenario.with(overrides))} {}

  AllocationStudy run() {
    const Cluster& cluster = loaded_.cluster;
    // Nodes of the job alone: a scenario may leave nodes of a cluster idle.
    const int nodes = divide_up(loaded_.layout.world_size(), cluster.gpus_per_node());
    made_.path = input_.path;
    made_.overrides = overrides_;
    made_.question = question_;
    made_.nodes = nodes;
    made_.gpus_per_node = cluster.gpus_per_node();
    base_ = without_allocation(overrides_, nodes);
    const Scenario packed = load_scenario(input_.with(drawn_point(overrides_, nodes, {})));
    made_.machine_nodes = packed.cluster.machine_nodes();
    made_.packed_leaves = leaves_of(packed.cluster);
    made_.fabric = packed.cluster.data().fabric.shape;
    // Without an allocation of its own the job has the first nodes.
    own_ = loaded_.allocation ? cluster.places() : packed.cluster.places();
    own_.resize(static_cast<std::size_t>(nodes));
    machine_ = &packed.cluster;
    made_.leaves = leaves_of(machine_->with_nodes(own_));
    compare();
    draw();
    hash();
    order();
    return std::move(made_);
  }

 private:
  std::vector<PointResult> forecasts(const std::vector<Overrides>& points) {
    return forecast_points(input_, points, LayoutMode::fixed, done_, control_);
  }
  Overrides at(std::span<const int> places) const { return at_places(base_, *machine_, places); }

  void compare() {
    const std::vector<PointResult> both =
        forecasts({drawn_point(base_, made_.nodes, {}), at(own_)});
    made_.packed = told(both[0], input_.path);
    made_.own = told(both[1], input_.path);
    const Scenario own = load_scenario(input_.with(at(own_)));
    made_.loads = fabric_loads(forecast(own, {}, control_).report, own);
  }

  void draw() {
    if (question_.draws == 0) return;
    std::vector<Overrides> points;
    for (int seed = 1; seed <= question_.draws; ++seed)
      points.push_back(drawn_point(base_, made_.nodes,
                                   {.node_list = {},
                                    .kind = question_.kind,
                                    .occupancy = question_.occupancy,
                                    .seed = static_cast<std::uint64_t>(seed)}));
    made_.drawn = spread_of(forecasts(points), input_.path);
  }

  void hash() {
    if (question_.ecmp_seeds == 0) return;
    const FabricKind kind = machine_->data().fabric.kind;
    if (kind == FabricKind::none || kind == FabricKind::flat || kind == FabricKind::sites)
      throw InputError{SourcePosition{loaded_.cluster_path, 0, 0},
                       fmt::format("the fabric is of kind {}, in which messages have one path: no "
                                   "hash chooses among any",
                                   word(kind))};
    const auto routed = [&](Routing routing) {
      Overrides point = at(own_);
      set_override(point, "cluster.change.fabric.routing", std::string{word(routing)});
      return point;
    };
    made_.spread = told(forecasts({routed(Routing::spread)}).front(), input_.path);
    std::vector<Overrides> points;
    for (int seed = 1; seed <= question_.ecmp_seeds; ++seed) {
      points.push_back(routed(Routing::hash));
      set_override(points.back(), "cluster.change.fabric.hash_seed", fmt::format("{}", seed));
    }
    made_.hash_flows = load_scenario(input_.with(points.front())).cluster.data().fabric.hash_flows;
    made_.ecmp = spread_of(forecasts(points), input_.path);
  }

  // Strides of nodes between ranks that talk: a pipeline stage's, and the stages'.
  std::vector<int> strides() const {
    const int stages = loaded_.layout.pipeline_parallel;
    return {made_.nodes / stages, stages};
  }

  void order() {
    made_.best_nodes = names_of(*machine_, own_);
    if (made_.nodes < 2 || made_.leaves < 2) return;
    std::vector<Overrides> points;
    std::vector<NamedOrder> orders = orders_to_try(machine_->with_nodes(own_), strides());
    for (const NamedOrder& one : orders)
      points.push_back(at(one.places));
    const std::vector<PointResult> steps = forecasts(points);
    for (std::size_t i = 0; i < orders.size(); ++i)
      made_.orders.push_back({std::move(orders[i]), told(steps[i], input_.path)});
    sort_orders();
    search();
    made_.best_nodes = names_of(*machine_, made_.orders.front().order.places);
  }

  void sort_orders() {
    std::stable_sort(made_.orders.begin(), made_.orders.end(),
                     [](const OrderedStep& a, const OrderedStep& b) {
                       return a.step.step_time < b.step.step_time;
                     });
  }

  // Swaps pairs of nodes at different leaves, some at once, and keeps the best swap that is faster.
  void search() {
    if (question_.swaps == 0) return;
    OrderedStep best = made_.orders.front();
    int kept = 0;
    for (std::size_t tried = 0; tried < static_cast<std::size_t>(question_.swaps);) {
      std::vector<std::vector<int>> orders;
      std::vector<Overrides> points;
      for (; orders.size() < swaps_at_once && tried < static_cast<std::size_t>(question_.swaps);
           ++tried) {
        orders.push_back(swapped(best.order.places, tried));
        points.push_back(at(orders.back()));
      }
      const std::vector<PointResult> steps = forecasts(points);
      const auto fastest = std::ranges::min_element(
          steps, {}, [&](const PointResult& one) { return told(one, input_.path).step_time; });
      if (fastest->step_time >= best.step.step_time) continue;
      best = {{{}, orders[static_cast<std::size_t>(fastest - steps.begin())]}, *fastest};
      ++kept;
    }
    if (kept == 0) return;
    best.order.name = fmt::format("the best of these with {} swap{}", kept, kept == 1 ? "" : "s");
    made_.orders.insert(made_.orders.begin(), std::move(best));
  }

  std::vector<int> swapped(std::vector<int> places, std::size_t draw) const {
    const auto index = [&](std::uint64_t stream) {
      const double drawn = uniform(search_seed, stream, draw);
      return std::min(static_cast<std::size_t>(drawn * static_cast<double>(places.size())),
                      places.size() - 1);
    };
    const std::size_t a = index(1);
    std::size_t b = index(2);
    const int leaf = leaf_of(*machine_, places[a]);
    for (std::size_t i = 0; i < places.size() && leaf_of(*machine_, places[b]) == leaf; ++i)
      b = (b + 1) % places.size();
    std::swap(places[a], places[b]);
    return places;
  }

  const ScenarioInput& input_;
  const Overrides& overrides_;
  const AllocationQuestion& question_;
  const std::function<void()>& done_;
  const Control& control_;
  Scenario loaded_;
  Overrides base_;  // without an allocation
  std::vector<int> own_;
  const Cluster* machine_ = nullptr;
  AllocationStudy made_;
};

}  // namespace

AllocationStudy study_allocation(const ScenarioInput& scenario,
                                 const std::vector<std::string>& overrides,
                                 const AllocationQuestion& question,
                                 const std::function<void()>& done, const Control& control) {
  return Study{scenario, overrides, question, done, control}.run();
}

}  // namespace sim
