#include "sim/capacity/capacity.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/table_text.hpp"
#include "sim/capacity/answers.hpp"
#include "sim/config/data_files.hpp"
#include "sim/economics/budget.hpp"
#include "sim/scenario/node_use.hpp"

namespace sim {
namespace {

// "[none, optimizer, ...]".
std::string all_offload_parts() {
  std::string list;
  for (const auto& [parts, text] : words_of(OffloadParts{}))
    list += fmt::format("{}{}", list.empty() ? "[" : ", ", text);
  return list + "]";
}

// The job on some GPUs of a cluster, its layout still to be found.
ScenarioSources sources_on(const CapacityWish& wish, const std::string& cluster, int gpus) {
  std::vector<std::string> changes = wish.workload.overrides;
  if (wish.tokens) changes.push_back(fmt::format("budget.tokens={}", *wish.tokens));
  if (const auto price = wish.prices.gpu_hour.find(cluster); price != wish.prices.gpu_hour.end())
    changes.push_back(
        fmt::format("budget.price.gpu_hour={} {}", price->second, wish.prices.currency));
  if (wish.prices.kwh)
    changes.push_back(
        fmt::format("budget.price.kwh={} {}", *wish.prices.kwh, wish.prices.currency));
  changes.push_back("search.top=2");
  if (wish.offload) changes.push_back("search.offload=" + all_offload_parts());
  if (wish.scenario.empty()) {
    Workload workload = wish.workload;
    workload.cluster = cluster;
    workload.gpus = gpus;
    workload.overrides = std::move(changes);
    return workload_sources(workload);
  }
  const std::string file = find_data_file("topologies", cluster);
  changes.push_back("cluster.path=" + file);
  changes.push_back(fmt::format("cluster.nodes={}", nodes_for(room_of(Cluster::load(file)), gpus)));
  changes.push_back(fmt::format("cluster.gpus={}", gpus));
  return ScenarioSources::of_text(wish.scenario, wish.path, changes);
}

std::string runner_up_of(const SearchResult& result, const RankedLayout& best) {
  const std::vector<RankedLayout>& list = result.best.empty() ? result.within_margin : result.best;
  if (list.size() < 2) return {};
  const RankedLayout& second = list[1];
  const double more = to_seconds(second.evaluation.step_time) /
                      std::max(1e-12, to_seconds(best.evaluation.step_time));
  return fmt::format("{}, {:+.1f} %", describe(second, result.node_gpus), 100 * (more - 1));
}

void add_run(const CapacityWish& wish, const ScenarioSources& sources, Scenario scenario,
             const Control& control, CapacityPoint& point) {
  const Budget budget = load_budget(scenario, sources);
  point.run = forecast_budget(scenario, budget, control);
  const RunForecast& rented = point.run->rented;
  if (!point.run->fits || !rented.ends()) {
    point.chance = 0;
    return;
  }
  point.helps = what_would_help(scenario, budget, *point.run);
  point.kwh = energy_kwh(*point.run, budget, rented.expected);
  const Costs rent = costs(*point.run, rented, budget.prices.gpu_hour);
  point.cost = rent.rent;
  if (rent.rent)
    point.cost_at_most =
        *rent.rent * (rented.quantile(wish.confidence).count() / rented.wall.mean.count());
  if (wish.deadline) point.chance = rented.probability_within(*wish.deadline);
  // Rent grows with the wall time: money is a limit of time, too.
  if (wish.money && rent.rent && *rent.rent > 0)
    point.chance = std::min(
        point.chance, rented.probability_within(rented.wall.mean * (*wish.money / *rent.rent)));
}

class Looking {
 public:
  Looking(CapacityPlan& plan, const Control& control, const Looked& looked)
      : plan_{plan}, control_{control}, looked_{looked} {}

  // The best layout on some GPUs; false: none leaves the memory margin.
  bool look(const std::string& cluster, int gpus) {
    const ScenarioSources sources = sources_on(plan_.wish, cluster, gpus);
    Search search{load_search(sources), {}, control_};
    plan_.model = search.specification().workload.model.name;
    if (search.candidates().all.empty())
      return miss(cluster, gpus, "no layout divides the job among so many");
    if (!run_search(search, control_)) throw Stopped{};
    const SearchResult result = make_result(search, true);
    const RankedLayout* const best = result.favourite();
    if (!best) return miss(cluster, gpus, closest_of(search, result));
    CapacityPoint point{.cluster = cluster,
                        .device = result.device,
                        .gpus = gpus,
                        .best = *best,
                        .layout = describe(*best, result.node_gpus),
                        .runner_up = runner_up_of(result, *best),
                        .leaves_margin = !result.best.empty(),
                        .capacity = result.capacity};
    const std::uint32_t index = best->evaluation.index;
    if (plan_.wish.tokens)
      add_run(plan_.wish, sources, take_scenario(std::move(search), index), control_, point);
    plan_.points.push_back(std::move(point));
    const CapacityPoint& found = plan_.points.back();
    tell(fmt::format("{} x {}: {}, {}", gpus, cluster, precise(found.best.evaluation.step_time),
                     found.layout));
    return found.leaves_margin;
  }

 private:
  static std::string closest_of(const Search& search, const SearchResult& result) {
    const std::optional<Evaluation>& closest = search.ranking().closest();
    std::string text = "no layout fits, by a lower bound of its memory";
    if (closest && closest->least_memory > result.capacity)
      text = fmt::format("{:.1f} of {:.1f} GiB at least", closest->least_memory.gib(),
                         result.capacity.gib());
    const Bytes host = search.least_on_host();
    if (host > Bytes{})
      text += fmt::format("; offloaded, {:.0f} of {:.0f} GiB of a node's host at least", host.gib(),
                          search.specification().workload.cluster.host().memory.gib());
    return text;
  }
  bool miss(const std::string& cluster, int gpus, const std::string& why) {
    plan_.misses.push_back({cluster, gpus, why});
    tell(fmt::format("{} x {}: {}", gpus, cluster, why));
    return false;
  }
  void tell(const std::string& line) const {
    if (looked_) looked_(plan_, line);
  }

  CapacityPlan& plan_;
  const Control& control_;
  const Looked& looked_;
};

}  // namespace

Scenario point_scenario(const CapacityWish& wish, const CapacityPoint& point) {
  Scenario scenario = load_search(sources_on(wish, point.cluster, point.gpus)).workload;
  scenario.layout = point.best.layout;
  scenario.cluster.use_gpus_per_node(point.best.gpus_per_node);
  return scenario;
}

std::string CapacityPoint::offloaded() const {
  const OffloadParts parts = offload_parts(best.layout);
  return parts == OffloadParts::none ? std::string{} : fmt::format("offload.{}", word(parts));
}

std::vector<int> gpu_ladder(int node_gpus, int most) {
  std::vector<int> ladder;
  for (int gpus = 1; gpus < node_gpus && gpus <= most; gpus *= 2)
    ladder.push_back(gpus);
  for (int nodes = 1; nodes <= most / node_gpus; nodes *= 2) {
    ladder.push_back(nodes * node_gpus);
    if (nodes >= 2 && nodes * 3 / 2 <= most / node_gpus)
      ladder.push_back(nodes * 3 / 2 * node_gpus);
  }
  return ladder;
}

namespace {

std::vector<int> ladder_on(const CapacityWish& wish, const std::string& cluster) {
  return gpu_ladder(Cluster::load(find_data_file("topologies", cluster)).node_gpus(),
                    wish.most_gpus);
}

}  // namespace

std::size_t count_numbers(const CapacityWish& wish) {
  std::size_t count = 0;
  for (const std::string& cluster : wish.clusters)
    count += ladder_on(wish, cluster).size();
  return count;
}

CapacityPlan plan_capacity(const CapacityWish& wish, const Control& control, const Looked& looked) {
  CapacityPlan plan{.wish = wish};
  Looking looking{plan, control, looked};
  for (const std::string& cluster : wish.clusters) {
    for (const int gpus : ladder_on(wish, cluster)) {
      throw_if_stopped(control);
      // With offload on and on, to the fewest that need none.
      const bool fits = looking.look(cluster, gpus) && plan.points.back().leaves_margin;
      if (fits && wish.only_fewest && plan.points.back().offloaded().empty()) break;
    }
  }
  answer(plan);
  return plan;
}

}  // namespace sim
