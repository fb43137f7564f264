#include "sim/convergence/factors.hpp"

#include <algorithm>
#include <variant>

#include "sim/config/scalars.hpp"

namespace sim {
namespace {

const LossCurve* curve_of(const std::vector<LossCurve>& curves, std::size_t scheme,
                          std::uint64_t seed) {
  const auto found = std::ranges::find_if(
      curves, [&](const LossCurve& curve) { return curve.scheme == scheme && curve.seed == seed; });
  return found == curves.end() ? nullptr : &*found;
}

// Without values where there is no complete run.
std::vector<double> whole_curve(const LossCurve* curve, int window) {
  if (!curve || curve->end != SeedEnd::trained) return {};
  return smoothed(curve->losses, window);
}

SeedOutcome outcome_of(const ConvergenceFactors& factors, const LossCurve* curve,
                       const std::vector<double>& baseline) {
  SeedOutcome outcome;
  outcome.steps.resize(factors.targets.size());
  if (!curve) return outcome;
  const std::vector<double> own = whole_curve(curve, factors.setting.smoothing);
  outcome.end = curve->end;
  if (own.empty()) return outcome;
  outcome.final_loss = own.back();
  for (std::size_t i = 0; i < factors.targets.size(); ++i) {
    if (factors.targets[i].kind == TargetKind::fall && baseline.empty()) continue;
    outcome.steps[i] = steps_to(own, target_loss(factors.targets[i], baseline));
  }
  return outcome;
}

bool same_value(const std::string& a, const std::string& b) {
  if (a == b) return true;
  const ParsedNumber<double> left = parse_real(a), right = parse_real(b);
  const auto* x = std::get_if<double>(&left);
  const auto* y = std::get_if<double>(&right);
  return x && y && *x == *y;
}

bool same_keys(const std::vector<SchemeKey>& a, const std::vector<SchemeKey>& b) {
  return a.size() == b.size() && std::ranges::all_of(a, [&](const SchemeKey& key) {
           return std::ranges::any_of(b, [&](const SchemeKey& other) {
             return key.key == other.key && same_value(key.value, other.value);
           });
         });
}

}  // namespace

double target_loss(const LossTarget& target, const std::vector<double>& baseline) {
  if (target.kind == TargetKind::loss) return target.value;
  return baseline.front() - target.value * (baseline.front() - baseline.back());
}

namespace {

std::optional<double> mean_staleness(const std::vector<LossCurve>& curves, std::size_t scheme) {
  std::vector<double> values;
  for (const LossCurve& curve : curves)
    if (curve.scheme == scheme && curve.staleness) values.push_back(*curve.staleness);
  const std::optional<Spread> spread = spread_of(values);
  return spread ? std::optional{spread->mean} : std::nullopt;
}

}  // namespace

void score_curves(ConvergenceFactors& factors, const std::vector<LossCurve>& curves) {
  for (std::size_t i = 0; i < factors.schemes.size(); ++i) {
    factors.schemes[i].seeds.clear();
    factors.schemes[i].staleness = mean_staleness(curves, i);
  }
  for (const std::uint64_t seed : factors.setting.seeds) {
    const std::vector<double> baseline =
        whole_curve(curve_of(curves, factors.baseline, seed), factors.setting.smoothing);
    for (std::size_t i = 0; i < factors.schemes.size(); ++i)
      factors.schemes[i].seeds.push_back(outcome_of(factors, curve_of(curves, i, seed), baseline));
  }
}

StatisticalFactor factor_of(const ConvergenceFactors& factors, std::size_t scheme,
                            std::size_t target) {
  StatisticalFactor result;
  std::vector<double> values;
  const int half_window = (factors.setting.smoothing - 1) / 2;
  const double last = factors.setting.steps - 1 - half_window;
  const std::vector<SeedOutcome>& baseline = factors.schemes[factors.baseline].seeds;
  for (std::size_t i = 0; i < factors.schemes[scheme].seeds.size(); ++i) {
    const SeedOutcome& own = factors.schemes[scheme].seeds[i];
    const std::optional<double>& reference = baseline[i].steps[target];
    std::optional<double> factor;
    if (reference && *reference > 0 && own.end != SeedEnd::not_run) {
      ++result.compared;
      if (own.steps[target])
        factor = *own.steps[target] / *reference;
      else if (own.end == SeedEnd::trained)
        result.above = std::min(result.above.value_or(last / *reference), last / *reference);
    }
    if (factor) values.push_back(*factor);
    result.by_seed.push_back(factor);
  }
  result.reached = static_cast<int>(values.size());
  if (result.reached == result.compared) result.spread = spread_of(values);
  return result;
}

std::optional<Spread> final_loss_of(const SchemeOutcome& scheme) {
  std::vector<double> losses;
  for (const SeedOutcome& seed : scheme.seeds)
    if (seed.end == SeedEnd::trained) losses.push_back(seed.final_loss);
  return spread_of(losses);
}

const SchemeOutcome* find_scheme(const ConvergenceFactors& factors,
                                 const std::vector<SchemeKey>& keys, int warm_up) {
  const auto found = std::ranges::find_if(factors.schemes, [&](const SchemeOutcome& outcome) {
    return outcome.scheme.warm_up == warm_up && same_keys(outcome.scheme.set, keys);
  });
  return found == factors.schemes.end() ? nullptr : &*found;
}

}  // namespace sim
