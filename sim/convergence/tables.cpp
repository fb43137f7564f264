#include "sim/convergence/tables.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/quantity.hpp"
#include "sim/base/table_text.hpp"
#include "sim/report/text_grid.hpp"

namespace sim {
namespace {

std::string spread_text(const std::optional<Spread>& spread, int digits) {
  if (!spread) return "-";
  return fmt::format("{:.{}f} ±{:.{}f}", spread->mean, digits, spread->deviation, digits);
}

std::string factor_text(const StatisticalFactor& factor) {
  if (factor.compared == 0) return "-";
  if (factor.spread) return spread_text(factor.spread, 2);
  std::string text = factor.reached == 0
                         ? std::string{"not reached"}
                         : fmt::format("{} of {} reached", factor.reached, factor.compared);
  if (factor.above) text += fmt::format(", > {:.2f}", *factor.above);
  return text;
}

std::string share_text(const ConvergenceFactors& factors, const SchemeOutcome& scheme) {
  const Bytes whole = factors.schemes[factors.baseline].sent;
  if (whole.count() == 0) return "-";
  return significant(100.0 * static_cast<double>(scheme.sent.count()) /
                     static_cast<double>(whole.count())) +
         " %";
}

std::string loss_text(const SchemeOutcome& scheme) {
  std::string text = spread_text(final_loss_of(scheme), 3);
  int failed = 0;
  for (const SeedOutcome& seed : scheme.seeds)
    failed += seed.end == SeedEnd::failed ? 1 : 0;
  if (failed > 0) text += fmt::format(" ({} failed)", failed);
  return text;
}

std::string short_text(const LossTarget& target) {
  return target.kind == TargetKind::fall ? fmt::format("{:g} %", target.value * 100)
                                         : target_text(target);
}

TextGrid grid_of(const ConvergenceFactors& factors) {
  TextGrid grid;
  grid.columns = {{"scheme", "scheme"},
                  {"sent per step", "sent_per_step_bytes"},
                  {"of baseline", "sent_share"},
                  {"final loss", "final_loss"}};
  for (const LossTarget& target : factors.targets)
    grid.columns.push_back({"factor at " + short_text(target), "factor"});
  for (std::size_t i = 0; i < factors.schemes.size(); ++i) {
    const SchemeOutcome& scheme = factors.schemes[i];
    std::vector<GridCell> row{scheme.scheme.name, to_text(scheme.sent), share_text(factors, scheme),
                              loss_text(scheme)};
    for (std::size_t target = 0; target < factors.targets.size(); ++target)
      row.emplace_back(factor_text(factor_of(factors, i, target)));
    grid.rows.push_back(std::move(row));
  }
  return grid;
}

// Steps and loss of the baseline at each target, mean over seeds.
std::string targets_text(const ConvergenceResult& result) {
  const ConvergenceFactors& factors = result.factors;
  std::string text;
  for (std::size_t target = 0; target < factors.targets.size(); ++target) {
    std::vector<double> steps, losses;
    for (const LossCurve& curve : result.curves) {
      if (curve.scheme != factors.baseline || curve.end != SeedEnd::trained) continue;
      const std::vector<double> smooth = smoothed(curve.losses, factors.setting.smoothing);
      if (smooth.empty()) continue;
      losses.push_back(target_loss(factors.targets[target], smooth));
      if (const auto reached = steps_to(smooth, losses.back())) steps.push_back(*reached);
    }
    const std::optional<Spread> loss = spread_of(losses), step = spread_of(steps);
    if (!loss) continue;
    text += fmt::format("{}: loss {}, baseline {}\n", target_text(factors.targets[target]),
                        spread_text(loss, 3),
                        step ? "at step " + spread_text(step, 1) : "does not reach it");
  }
  return text;
}

std::string heading(const ConvergenceFactors& factors) {
  const ConvergenceSetting& setting = factors.setting;
  std::string text = setting.suite;
  if (!setting.title.empty()) text += ": " + setting.title;
  text += fmt::format(
      "\n{} ({} parameters) on {}, {} replicas, {} x {} tokens per step, {} steps, "
      "{} {}\n",
      setting.model, grouped(setting.parameters), setting.data, setting.replicas,
      setting.global_batch, setting.sequence_length, setting.steps,
      setting.seeds.size() == 1 ? "seed" : "seeds", fmt::join(setting.seeds, ", "));
  return text;
}

std::string notes(const ConvergenceResult& result) {
  const ConvergenceFactors& factors = result.factors;
  std::string text = fmt::format(
      "factor: steps to the target / those of {} with the same seed; mean ± standard deviation "
      "over "
      "seeds; losses smoothed over {} steps\n",
      factors.schemes[factors.baseline].scheme.name, factors.setting.smoothing);
  for (const LossCurve& curve : result.curves)
    if (curve.end == SeedEnd::failed)
      text += fmt::format("{}, seed {}: {}\n", factors.schemes[curve.scheme].scheme.name,
                          curve.seed, curve.failure);
  if (result.interrupted) {
    std::size_t whole = 0;
    for (const LossCurve& curve : result.curves)
      whole += curve.end == SeedEnd::trained ? 1 : 0;
    text += fmt::format("interrupted: {} of {} runs were trained to the end; only they count\n",
                        whole, factors.schemes.size() * factors.setting.seeds.size());
  }
  return text;
}

}  // namespace

std::string convergence_table(const ConvergenceResult& result) {
  return heading(result.factors) + targets_text(result) + '\n' +
         grid_table(grid_of(result.factors)) + '\n' + notes(result);
}

std::string convergence_markdown(const ConvergenceResult& result) {
  return heading(result.factors) + '\n' + targets_text(result) + '\n' +
         grid_markdown(grid_of(result.factors)) + '\n' + notes(result);
}

std::string convergence_csv(const ConvergenceResult& result) {
  const ConvergenceFactors& factors = result.factors;
  std::string text = "scheme,seed,step,tokens,loss,smoothed_loss\n";
  for (const LossCurve& curve : result.curves) {
    const std::vector<double> smooth = smoothed(curve.losses, factors.setting.smoothing);
    for (std::size_t i = 0; i < curve.losses.size(); ++i)
      text += fmt::format(
          "{},{},{},{},{:.6f},{}\n", factors.schemes[curve.scheme].scheme.name, curve.seed, i,
          static_cast<std::int64_t>(i) * factors.setting.tokens_per_step(), curve.losses[i],
          i < smooth.size() ? fmt::format("{:.6f}", smooth[i]) : "");
  }
  return text;
}

}  // namespace sim
