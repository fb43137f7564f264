#include <nlohmann/json.hpp>

#include "sim/base/table_text.hpp"
#include "sim/fleet/fleet.hpp"

namespace sim {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Slowdown& slowdown) {
  return {{"median", slowdown.median()},
          {"least", slowdown.least()},
          {"most", slowdown.most()},
          {"drawn", slowdown.drawn}};
}

Json json_of(const JobPair& pair, const FleetForecast& forecast) {
  Json links = Json::array();
  for (const SharedLink& link : pair.links)
    links.push_back({{"name", link.name},
                     {"alike", link.alike},
                     {"busy", {link.first_busy, link.second_busy}}});
  return {{"jobs", {forecast.jobs[pair.first].name, forecast.jobs[pair.second].name}},
          {"slowdown", {json_of(pair.of_first), json_of(pair.of_second)}},
          {"links", std::move(links)}};
}

}  // namespace

std::string fleet_json(const FleetForecast& forecast) {
  Json json{{"schema_version", 1},
            {"fleet", forecast.name},
            {"cluster", forecast.cluster},
            {"phases", forecast.phases},
            {"seed", forecast.seed}};
  for (const JobImpact& job : forecast.jobs)
    json["jobs"].push_back({{"name", job.name},
                            {"gpus", job.gpus},
                            {"nodes", job.nodes},
                            {"step_alone_s", in_seconds(job.alone)},
                            {"slowdown", json_of(job.beside_all)}});
  json["pairs"] = Json::array();
  for (const JobPair& pair : forecast.pairs)
    json["pairs"].push_back(json_of(pair, forecast));
  return json.dump(2) + "\n";
}

}  // namespace sim
