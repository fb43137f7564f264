#include "sim/explain/explanation_json.hpp"

namespace sim {
namespace {

using Json = nlohmann::ordered_json;

Json states_json(const StateTimes& parts) {
  Json json;
  for (const auto& state : words_of(StepState{}))
    json[std::string{state.text} + "_ps"] = parts[state.value].count();
  return json;
}

Json step_json(const Explanation& e, const RankStep& step) {
  Json json{{"step", step.window.name},
            {"rank", e.ranks[step.rank].value},
            {"first", step.first},
            {"time_ps", step.window.time().count()},
            {"communication_ps", step.communication.count()}};
  json["states"] = states_json(step.parts);
  json["exposed_by_group_ps"] = Json::object();
  for (const auto& [group, time] : step.exposed)
    json["exposed_by_group_ps"][group] = time.count();
  return json;
}

Json mean_json(const MeanParts& mean) {
  Json json{{"step_s", mean.step}, {"communication_s", mean.communication}};
  for (const auto& state : words_of(StepState{}))
    json[std::string{state.text} + "_s"] = mean[state.value];
  json["exposed_by_group_s"] = Json::object();
  for (const auto& [group, seconds] : mean.exposed)
    json["exposed_by_group_s"][group] = seconds;
  return json;
}

Json kernels_json(const std::vector<KernelRow>& rows) {
  Json list = Json::array();
  for (const KernelRow& row : rows) {
    Json json{{"name", row.name},
              {"category", row.category},
              {"count", row.count},
              {"time_s", row.seconds},
              {"share", row.share}};
    if (row.flops > 0) json["flop_per_s"] = row.flop_rate();
    if (row.flops > 0 && row.of_peak > 0) json["of_peak"] = row.of_peak;
    list.push_back(std::move(json));
  }
  return list;
}

Json collectives_json(const std::vector<CollectiveRow>& rows) {
  Json list = Json::array();
  for (const CollectiveRow& row : rows)
    list.push_back({{"kind", row.kind},
                    {"group", row.group},
                    {"ranks", row.ranks},
                    {"bytes", row.bytes.count()},
                    {"count", row.count},
                    {"time_s", row.seconds},
                    {"waiting_s", row.waiting_seconds},
                    {"median_transfer_s", to_seconds(row.median)},
                    {"bus_bytes_per_s", row.bus.in_bytes_per_second()}});
  return list;
}

Json roofline_json(const Roofline& roofline) {
  Json json{{"device", roofline.device},
            {"memory_bytes_per_s", roofline.memory.in_bytes_per_second()},
            {"compute", Json::array()},
            {"kernels", Json::array()}};
  for (const RooflineLine& line : roofline.compute)
    json["compute"].push_back(
        {{"dtype", word(line.dtype)}, {"flop_per_s", line.peak.in_flops_per_second()}});
  for (const RooflinePoint& point : roofline.points) {
    Json entry{{"name", point.name},   {"category", point.category},
               {"shape", point.shape}, {"dtype", word(point.dtype)},
               {"count", point.count}, {"time_s", point.seconds},
               {"flop", point.flops},  {"bytes", point.bytes}};
    if (!roofline.device.empty()) {
      entry["of_roof"] = point.of_roof;
      entry["memory_bound"] = point.memory_bound;
    }
    json["kernels"].push_back(std::move(entry));
  }
  return json;
}

Json late_json(const std::vector<LateRank>& rows) {
  Json list = Json::array();
  for (const LateRank& row : rows) {
    Json entry{{"rank", row.rank.value}, {"waited_for_s", row.seconds}, {"ranks", row.ranks}};
    entry["meanwhile"] = Json::array();
    for (const LateWork& work : row.meanwhile)
      entry["meanwhile"].push_back(
          {{"state", word(work.state)}, {"name", work.name}, {"time_s", work.seconds}});
    list.push_back(std::move(entry));
  }
  return list;
}

Json item_json(const WaterfallItem& item) {
  return {{"name", item.name},
          {"time_ps", item.time.count()},
          {"measured_ps", item.measured.count()},
          {"forecast_ps", item.forecast.count()}};
}

Json waterfall_json(const Waterfall& w) {
  Json json{{"rank", w.rank.value},
            {"step", w.step},
            {"measured_ps", w.measured.count()},
            {"forecast_ps", w.forecast.count()},
            {"difference_ps", w.difference().count()},
            {"matched_share", w.matched},
            {"not_the_same_job", w.differences},
            {"late_rank", w.late}};
  json["parts"] = Json::array();
  for (const WaterfallPart& part : w.parts) {
    Json entry{{"cause", word(part.kind)},
               {"time_ps", part.time.count()},
               {"of_step", to_seconds(part.time) / to_seconds(w.measured)},
               {"sentence", part.sentence}};
    entry["items"] = Json::array();
    for (const WaterfallItem& item : part.items)
      entry["items"].push_back(item_json(item));
    json["parts"].push_back(std::move(entry));
  }
  return json;
}

}  // namespace

Json json_object(const Explanation& e) {
  Json json{{"maker", e.maker},
            {"device", e.device},
            {"world_size", e.world_size},
            {"steps_by", word(e.by)},
            {"notes", e.notes}};
  json["ranks"] = Json::array();
  for (const RankId rank : e.ranks)
    json["ranks"].push_back(rank.value);
  json["variation"] = {{"steps", e.variation.steps},
                       {"median_s", to_seconds(e.variation.median)},
                       {"p10_s", to_seconds(e.variation.least_tenth)},
                       {"p90_s", to_seconds(e.variation.most_tenth)},
                       {"first_steps", e.first_steps},
                       {"first_over_median", e.first_factor}};
  json["mean"] = mean_json(e.mean);
  json["steps"] = Json::array();
  for (const RankStep& step : e.steps)
    json["steps"].push_back(step_json(e, step));
  json["peak_flop_per_s"] = e.peak.in_flops_per_second();
  json["categories"] = kernels_json(e.kernels.categories);
  json["kernels"] = kernels_json(e.kernels.names);
  json["products"] = kernels_json(e.kernels.products);
  json["roofline"] = roofline_json(e.roofline);
  json["collectives"] = collectives_json(e.collectives);
  json["waiting_told"] = e.arrivals_told;
  json["late_ranks"] = late_json(e.late);
  if (e.waterfall) json["waterfall"] = waterfall_json(*e.waterfall);
  return json;
}

std::string explanation_json(const Explanation& explanation) {
  return json_object(explanation).dump(2) + '\n';
}

}  // namespace sim
