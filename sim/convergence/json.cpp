#include <nlohmann/json.hpp>

#include "sim/convergence/tables.hpp"

namespace sim {
namespace {

using Json = nlohmann::ordered_json;

Json number_or_null(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json spread_json(const std::optional<Spread>& spread) {
  if (!spread) return nullptr;
  return {{"mean", spread->mean}, {"deviation", spread->deviation}};
}

Json target_json(const LossTarget& target) {
  return {{std::string{word(target.kind)}, target.value}};
}

Json setting_json(const ConvergenceSetting& setting) {
  return {{"suite", setting.suite},
          {"title", setting.title},
          {"program", setting.program},
          {"date", setting.date},
          {"model", setting.model},
          {"parameters", setting.parameters},
          {"scenario", setting.scenario},
          {"data", setting.data},
          {"optimizer", setting.optimizer},
          {"learning_rate", setting.learning_rate},
          {"replicas", setting.replicas},
          {"global_batch", setting.global_batch},
          {"sequence_length", setting.sequence_length},
          {"tokens_per_step", setting.tokens_per_step()},
          {"steps", setting.steps},
          {"seeds", setting.seeds},
          {"smoothing", setting.smoothing}};
}

Json factor_json(const ConvergenceFactors& factors, std::size_t scheme, std::size_t target) {
  const StatisticalFactor factor = factor_of(factors, scheme, target);
  Json json = target_json(factors.targets[target]);
  json["factor"] = spread_json(factor.spread);
  json["compared"] = factor.compared;
  json["reached"] = factor.reached;
  json["above"] = number_or_null(factor.above);
  json["by_seed"] = json["steps"] = Json::array();
  for (const std::optional<double>& value : factor.by_seed)
    json["by_seed"].push_back(number_or_null(value));
  for (const SeedOutcome& seed : factors.schemes[scheme].seeds)
    json["steps"].push_back(number_or_null(seed.steps[target]));
  return json;
}

Json curve_json(const LossCurve& curve, const ConvergenceSetting& setting) {
  const std::vector<double> smooth = smoothed(curve.losses, setting.smoothing);
  Json json{{"seed", curve.seed}, {"end", word(curve.end)}};
  if (!curve.failure.empty()) json["failure"] = curve.failure;
  Json& steps = json["steps"] = Json::array();
  for (std::size_t i = 0; i < curve.losses.size(); ++i) {
    Json step{{"step", i},
              {"tokens", static_cast<std::int64_t>(i) * setting.tokens_per_step()},
              {"loss", curve.losses[i]}};
    if (i < smooth.size()) step["smoothed_loss"] = smooth[i];
    steps.push_back(std::move(step));
  }
  return json;
}

Json scheme_json(const ConvergenceResult& result, std::size_t index) {
  const ConvergenceFactors& factors = result.factors;
  const SchemeOutcome& outcome = factors.schemes[index];
  Json json{{"name", outcome.scheme.name}, {"set", Json::object()}};
  for (const SchemeKey& key : outcome.scheme.set)
    json["set"][key.key] = key.value;
  json["warm_up"] = outcome.scheme.warm_up;
  json["sent_per_step_bytes"] = outcome.sent.count();
  json["final_loss"] = spread_json(final_loss_of(outcome));
  json["targets"] = json["curves"] = Json::array();
  for (std::size_t target = 0; target < factors.targets.size(); ++target)
    json["targets"].push_back(factor_json(factors, index, target));
  for (const LossCurve& curve : result.curves)
    if (curve.scheme == index) json["curves"].push_back(curve_json(curve, factors.setting));
  return json;
}

}  // namespace

std::string convergence_json(const ConvergenceResult& result) {
  const ConvergenceFactors& factors = result.factors;
  Json json = setting_json(factors.setting);
  json["interrupted"] = result.interrupted;
  json["baseline"] = factors.schemes[factors.baseline].scheme.name;
  json["schemes"] = Json::array();
  for (std::size_t i = 0; i < factors.schemes.size(); ++i)
    json["schemes"].push_back(scheme_json(result, i));
  return json.dump(2) + "\n";
}

}  // namespace sim
