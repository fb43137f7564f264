#include "sim/economics/help.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "sim/economics/read_strategies.hpp"

namespace sim {
namespace {

struct RuleChange {
  std::string what;
  std::function<void(Budget&)> apply;
};

// Nodes of which two in a hundred stand by, at least one more than there are.
int more_spares(const Budget& budget, int nodes) {
  return std::max(budget.spares.nodes.value_or(0) + 1,
                  static_cast<int>(std::ceil(0.02 * static_cast<double>(nodes))));
}

void add_copies(Budget& budget, MemoryPlace place, const Scenario& scenario) {
  if (budget.memory.place == MemoryPlace::none) {
    budget.memory.copy = *budget_reading::host_copy(scenario.cluster);
    budget.memory.network = budget_reading::network_of(scenario.cluster);
  }
  budget.memory.place = place;
  budget.memory.every.reset();
}

std::vector<RuleChange> changes_of(const Scenario& scenario, const Budget& budget,
                                   const BudgetForecast& forecast) {
  std::vector<RuleChange> changes{
      {"failures found in half the time", [](Budget& b) { b.restart.detect /= 2; }},
      {"failures half as often",
       [](Budget& b) {
         for (Seconds* every :
              {&b.failures.gpu, &b.failures.node, &b.failures.network, &b.failures.software})
           *every *= 2;
       }},
      {"processes started in half the time",
       [](Budget& b) {
         b.restart.reschedule /= 2;
         b.spares.swap /= 2;
       }},
      {"a storage of twice the bandwidth",
       [](Budget& b) {
         for (Bandwidth* rate : {&b.checkpoint.node, &b.checkpoint.storage})
           *rate = Bandwidth::bytes_per_second(2 * rate->in_bytes_per_second());
       }},
  };
  const bool has_links = budget_reading::host_copy(scenario.cluster) &&
                         budget_reading::network_of(scenario.cluster).in_bytes_per_second() >= 1;
  const auto copies = [&](const char* what, MemoryPlace place) {
    changes.push_back({what, [&scenario, place](Budget& b) { add_copies(b, place, scenario); }});
  };
  if (has_links && budget.memory.place == MemoryPlace::none)
    copies("copies in the memory of the hosts", MemoryPlace::host);
  if (has_links && budget.memory.place != MemoryPlace::peer && forecast.nodes > 1)
    copies("copies in the memory of a peer", MemoryPlace::peer);
  if (budget.spares.nodes) {
    const int spares = more_spares(budget, forecast.nodes);
    changes.push_back({fmt::format("{} spare node{}", spares, spares == 1 ? "" : "s"),
                       [spares](Budget& b) { b.spares.nodes = spares; }});
    changes.push_back({"nodes repaired in half the time", [](Budget& b) { b.spares.repair /= 2; }});
  }
  return changes;
}

}  // namespace

std::vector<Help> what_would_help(const Scenario& scenario, const Budget& budget,
                                  const BudgetForecast& forecast) {
  const double now = gpu_hours(forecast, forecast.rented.expected);
  std::vector<Help> helps;
  for (const RuleChange& change : changes_of(scenario, budget, forecast)) {
    Budget changed = budget;
    change.apply(changed);
    BudgetForecast other = forecast;
    other.rented = {};
    other.spot.reset();
    other.times = checkpoint_times(forecast.checkpoint, changed.checkpoint);
    other.copies =
        copy_times(forecast.checkpoint, changed.memory, Seconds{to_seconds(forecast.step)});
    other.spare_nodes = changed.spares.nodes.value_or(0);
    other.spare_gpus = other.spare_nodes * scenario.cluster.gpus_per_node();
    const RunModel run = rented_model(other, changed);
    const Seconds wall = expected_wall_time(run);
    const double goodput = run.work / wall;
    if (goodput > forecast.rented.expected_goodput() * (1 + 1e-9))
      helps.push_back({change.what, goodput, gpu_hours(other, wall) / now});
  }
  std::ranges::stable_sort(helps, std::greater<>{}, &Help::goodput);
  return helps;
}

}  // namespace sim
