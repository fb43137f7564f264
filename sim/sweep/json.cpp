// Sweeps, sensitivities and scaling curves as JSON; README.md documents the keys.
#include <nlohmann/json.hpp>

#include "sim/report/numbers.hpp"
#include "sim/sweep/scaling.hpp"
#include "sim/sweep/sensitivity.hpp"
#include "sim/sweep/sweep.hpp"

namespace sim {
namespace {

using Json = nlohmann::ordered_json;
constexpr int schema_version = 1;

Json result_json(const PointResult& point) {
  if (!point.told()) return {{"problem", point.problem}};
  Json breakdown;
  for (const BreakdownField& field : breakdown_fields)
    breakdown[std::string{field.key}] = in_seconds(point.breakdown.*field.member);
  Json json{{"layout", point.layout},
            {"gpus", point.gpus},
            {"step_time_s", in_seconds(point.step_time)},
            {"tokens_per_s", point.tokens_per_second},
            {"tokens_per_s_per_gpu", point.tokens_per_second_per_gpu},
            {"mfu", point.mfu},
            {"peak_mem_bytes", point.memory.count()},
            {"device_mem_bytes", point.capacity.count()},
            {"fits", point.fits()},
            {"breakdown_s", breakdown}};
  if (point.longest > Duration{}) {
    json["step_time_s_low"] = in_seconds(point.shortest);
    json["step_time_s_high"] = in_seconds(point.longest);
  }
  if (!point.notes.empty()) json["notes"] = point.notes;
  return json;
}

Json time_or_null(Duration time) {
  return time > Duration{} ? Json(in_seconds(time)) : Json(nullptr);
}

}  // namespace

std::string sweep_json(const Sweep& sweep) {
  const SweepSpecification& of = sweep.specification;
  Json axes = Json::array();
  for (const Axis& axis : of.axes)
    axes.push_back({{"key", axis.key}, {"values", axis.values}});
  Json points = Json::array();
  for (std::size_t i = 0; i < sweep.points.size(); ++i) {
    Json point{{"values", values_at(of.axes, i)}};
    point.update(result_json(sweep.points[i]));
    points.push_back(std::move(point));
  }
  Json json{{"schema_version", schema_version}, {"scenario", of.path}, {"set", of.overrides},
            {"layout", word(of.layout)},        {"axes", axes},        {"points", points}};
  if (!sweep.notes.empty()) json["notes"] = sweep.notes;
  return json.dump(2) + '\n';
}

std::string sensitivity_json(const Sensitivity& sensitivity) {
  Json parameters = Json::array();
  for (const Elasticity& entry : sensitivity.parameters) {
    parameters.push_back({{"parameter", entry.parameter},
                          {"value", entry.value},
                          {"keys", entry.keys},
                          {"elasticity", entry.value_of_one},
                          {"step_time_with_more_s", time_or_null(entry.with_more)},
                          {"step_time_with_less_s", time_or_null(entry.with_less)}});
    if (!entry.unmoved.empty()) parameters.back()["unmoved"] = entry.unmoved;
  }
  return Json{{"schema_version", schema_version},      {"scenario", sensitivity.path},
              {"set", sensitivity.overrides},          {"by", sensitivity.by},
              {"base", result_json(sensitivity.base)}, {"parameters", parameters},
              {"left_out", sensitivity.left_out}}
             .dump(2) +
         '\n';
}

std::string scaling_json(const std::vector<ScalingCurve>& curves) {
  Json all = Json::array();
  for (const ScalingCurve& curve : curves) {
    Json points = Json::array();
    for (const ScalingPoint& entry : curve.points) {
      Json point{{"gpus", entry.gpus}, {"global_batch", entry.global_batch}};
      if (entry.result.told()) point["efficiency"] = entry.efficiency;
      point.update(result_json(entry.result));
      points.push_back(std::move(point));
    }
    Json json{{"scaling", word(curve.kind)}};
    json["communication_bound_from_gpus"] =
        curve.communication_bound_from ? Json(*curve.communication_bound_from) : Json(nullptr);
    json["points"] = std::move(points);
    all.push_back(std::move(json));
  }
  return Json{{"schema_version", schema_version}, {"curves", all}}.dump(2) + '\n';
}

}  // namespace sim
