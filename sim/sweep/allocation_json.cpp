// The cost of an allocation, as JSON.
#include <nlohmann/json.hpp>

#include "sim/base/table_text.hpp"
#include "sim/sweep/allocation_study.hpp"

namespace sim {
namespace {

using Json = nlohmann::ordered_json;

Json step_json(const PointResult& point) {
  return {{"step_time_s", in_seconds(point.step_time)},
          {"exposed_s", in_seconds(point.communication())}};
}

Json spread_json(const StepSpread& spread) {
  Json json{{"least_s", in_seconds(spread.least)},   {"p10_s", in_seconds(spread.p10)},
            {"median_s", in_seconds(spread.median)}, {"p90_s", in_seconds(spread.p90)},
            {"most_s", in_seconds(spread.most)},     {"steps_s", Json::array()}};
  for (const Duration step : spread.steps)
    json["steps_s"].push_back(in_seconds(step));
  return json;
}

Json drawn_json(const AllocationStudy& study) {
  Json json = spread_json(*study.drawn);
  json["kind"] = word(study.question.kind);
  if (study.question.kind == AllocationKind::fragmented)
    json["occupancy"] = study.question.occupancy;
  return json;
}

}  // namespace

std::string allocation_json(const AllocationStudy& study) {
  Json json{{"scenario", study.path},
            {"set", study.overrides},
            {"gpus", study.own.gpus},
            {"nodes", study.nodes},
            {"machine_nodes", study.machine_nodes},
            {"leaves", study.leaves},
            {"packed_leaves", study.packed_leaves},
            {"fabric", study.fabric},
            {"packed", step_json(study.packed)},
            {"own", step_json(study.own)}};
  for (const OrderedStep& one : study.orders) {
    Json order = step_json(one.step);
    order["order"] = one.order.name;
    order["nodes"] = one.order.places;
    json["orders"].push_back(std::move(order));
  }
  if (!study.best_nodes.empty()) json["fastest_order"] = study.best_nodes;
  for (const FabricLoad& load : study.loads)
    json["fabric_links"].push_back({{"link", load.link},
                                    {"alike", load.alike},
                                    {"carried_bytes", load.carried.count()},
                                    {"use", load.use}});
  if (study.drawn) json["drawn"] = drawn_json(study);
  if (study.spread) json["adaptive"] = step_json(*study.spread);
  if (study.ecmp) {
    json["ecmp"] = spread_json(*study.ecmp);
    json["ecmp"]["hash_flows"] = study.hash_flows;
  }
  return json.dump(2) + "\n";
}

}  // namespace sim
