#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "sim/capacity/capacity.hpp"

namespace sim {
namespace {

using CapacityJson = nlohmann::ordered_json;

constexpr std::array goal_names{"fewest_that_fit", "fewest", "cheapest", "fastest", "least_energy"};

CapacityJson point_json(const CapacityPoint& point) {
  CapacityJson json{{"cluster", point.cluster},
                    {"device", point.device},
                    {"gpus", point.gpus},
                    {"step_time_s", to_seconds(point.best.evaluation.step_time)}};
  if (point.best.interval) {
    const Duration step = point.best.evaluation.step_time;
    json["step_time_s_low"] = to_seconds(point.best.interval->shortest(step));
    json["step_time_s_high"] = to_seconds(point.best.interval->longest(step));
  }
  json["mfu"] = point.best.mfu;
  json["peak_mem_bytes"] = point.best.evaluation.memory.count();
  json["device_mem_bytes"] = point.capacity.count();
  json["leaves_margin"] = point.leaves_margin;
  json["layout"] = point.layout;
  if (const std::string offloaded = point.offloaded(); !offloaded.empty())
    json["offloaded"] = offloaded;
  if (!point.runner_up.empty()) json["runner_up"] = point.runner_up;
  if (!point.run || !point.run->rented.ends()) return json;
  json["days"] = point.days();
  json["days_low"] = in_days(point.run->rented.quantile(0.025));
  json["days_high"] = in_days(point.run->rented.quantile(0.975));
  json["chance"] = point.chance;
  if (point.cost) json["cost"] = *point.cost;
  if (point.cost_at_most) json["cost_at_most"] = *point.cost_at_most;
  json["energy_kwh"] = point.kwh;
  return json;
}

}  // namespace

std::string capacity_json(const CapacityPlan& plan) {
  const CapacityWish& wish = plan.wish;
  CapacityJson json{{"schema_version", 1}, {"model", plan.model}, {"clusters", wish.clusters}};
  if (wish.tokens) json["tokens"] = *wish.tokens;
  if (wish.deadline) json["deadline_days"] = in_days(*wish.deadline);
  if (wish.money) json["money"] = *wish.money;
  if (!wish.prices.currency.empty()) json["currency"] = wish.prices.currency;
  json["confidence"] = wish.confidence;
  json["answers"] = CapacityJson::array();
  for (const CapacityAnswer& answer : plan.answers)
    json["answers"].push_back({{"goal", goal_names[static_cast<std::size_t>(answer.goal)]},
                               {"point", answer.point},
                               {"gpus", plan.points[answer.point].gpus},
                               {"cluster", plan.points[answer.point].cluster},
                               {"binds", answer.binds}});
  if (!plan.closest.empty()) json["closest"] = plan.closest;
  if (!plan.measure.empty()) json["measure"] = plan.measure;
  json["points"] = CapacityJson::array();
  for (const CapacityPoint& point : plan.points)
    json["points"].push_back(point_json(point));
  json["front"] = plan.front;
  json["does_not_fit"] = CapacityJson::array();
  for (const CapacityMiss& miss : plan.misses)
    json["does_not_fit"].push_back(
        {{"cluster", miss.cluster}, {"gpus", miss.gpus}, {"why", miss.why}});
  return json.dump(2) + "\n";
}

}  // namespace sim
