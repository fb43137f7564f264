#include "sim/scores/real/run_score.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "sim/base/check.hpp"
#include "sim/scores/score.hpp"

namespace sim {
namespace {

double relative(double predicted, double measured) {
  SIM_CHECK(measured > 0, measured);
  return (predicted - measured) / measured;
}

FamilyScore score_family(const std::string& family, std::span<const RealRow> rows) {
  FamilyScore result;
  result.family = family;
  std::vector<double> predicted, measured;
  const RealRow* favourite = nullptr;
  const RealRow* best = nullptr;
  for (const RealRow& row : rows) {
    if (!row.scored() || row.family != family) continue;
    predicted.push_back(to_seconds(row.predicted));
    measured.push_back(to_seconds(row.measured));
    if (!favourite || row.predicted < favourite->predicted) favourite = &row;
    if (!best || row.measured < best->measured) best = &row;
  }
  SIM_CHECK(best != nullptr && favourite != nullptr, family);
  result.layouts = static_cast<int>(measured.size());
  result.spearman = rank_correlation(predicted, measured);
  result.kendall = kendall_tau(predicted, measured);
  result.favourite = favourite->name;
  result.best = best->name;
  result.favourite_loss = relative(to_seconds(favourite->measured), to_seconds(best->measured));
  return result;
}

void score_families(std::span<const RealRow> rows, RealScore& score) {
  for (const RealRow& row : rows) {
    if (!row.scored()) continue;
    const bool known =
        std::any_of(score.families.begin(), score.families.end(),
                    [&](const FamilyScore& other) { return other.family == row.family; });
    if (known) continue;
    score.families.push_back(score_family(row.family, rows));
    score.worst_favourite_loss =
        std::max(score.worst_favourite_loss.value_or(0), score.families.back().favourite_loss);
  }
}

void score_drift(std::span<const RealRow> rows, RealScore& score) {
  std::vector<double> drifts, left;
  for (const RealRow& row : rows) {
    if (!row.scored() || !row.drift) continue;
    drifts.push_back(row.drift->slowdown - 1);
    left.push_back(row.drift->left);
    if (row.name == score.worst_row) score.drift_left_of_worst = row.drift->left;
  }
  if (drifts.empty()) return;
  score.drift = quantile(drifts, 0.5);
  score.drift_left = quantile(left, 0.5);
  score.least_drift = *std::min_element(drifts.begin(), drifts.end());
  score.most_drift = *std::max_element(drifts.begin(), drifts.end());
}

bool above(std::optional<double> value, std::optional<double> most) {
  return value && most && *value > *most;
}

}  // namespace

double RealRow::step_error() const {
  SIM_CHECK(scored(), name);
  return relative(to_seconds(predicted), to_seconds(measured));
}

double RealRow::memory_error() const {
  SIM_CHECK(scored(), name);
  return relative(static_cast<double>(planned_memory.count()),
                  static_cast<double>(used_memory.count()));
}

std::optional<int> shared_cores(const RealResult& result) {
  if (result.suite.backend != RealBackend::host) return std::nullopt;
  constexpr std::string_view unit = " cores";
  const std::size_t end = result.machine.find(unit);
  if (end == std::string::npos) return std::nullopt;
  const std::size_t before = result.machine.find_last_not_of("0123456789", end - 1);
  const std::size_t first = before == std::string::npos ? 0 : before + 1;
  int cores = 0;
  const auto [rest, error] = std::from_chars(&result.machine[first], &result.machine[end], cores);
  if (error != std::errc{} || rest != &result.machine[end]) return std::nullopt;
  return result.suite.ranks > cores ? std::optional{cores} : std::nullopt;
}

std::optional<double> kendall_tau(std::span<const double> x, std::span<const double> y) {
  SIM_CHECK(x.size() == y.size(), x.size(), y.size());
  double agree = 0, untied_x = 0, untied_y = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const int sign_x = (x[i] > x[j]) - (x[i] < x[j]);
      const int sign_y = (y[i] > y[j]) - (y[i] < y[j]);
      agree += sign_x * sign_y;
      untied_x += sign_x != 0;
      untied_y += sign_y != 0;
    }
  }
  if (untied_x == 0 || untied_y == 0) return std::nullopt;
  return agree / std::sqrt(untied_x * untied_y);
}

RealScore score_real(std::span<const RealRow> rows) {
  RealScore score;
  score.rows = static_cast<int>(rows.size());
  std::vector<double> errors, signed_errors;
  double worst_memory = 0;
  for (const RealRow& row : rows) {
    if (!row.scored()) continue;
    ++score.scored;
    score.same_work += row.difference.empty();
    signed_errors.push_back(row.step_error());
    errors.push_back(std::abs(row.step_error()));
    worst_memory = std::max(worst_memory, std::abs(row.memory_error()));
    if (!score.worst_step_error || errors.back() > *score.worst_step_error) {
      score.worst_step_error = errors.back();
      score.worst_row = row.name;
    }
  }
  if (errors.empty()) return score;
  score.median_step_error = quantile(errors, 0.5);
  score.bias = quantile(signed_errors, 0.5);
  score.worst_memory_error = worst_memory;
  score_families(rows, score);
  score_drift(rows, score);
  return score;
}

std::vector<std::string> too_noisy(const RealScore& score, const SuiteBounds& bounds) {
  std::vector<std::string> problems;
  const auto check = [&](const char* what, std::optional<double> left, std::optional<double> most) {
    if (above(left, most))
      problems.push_back(
          fmt::format("machine too noisy: drift {:.1f}% above {:.1f}% is left beside the steps {}",
                      *left * 100, *most * 100, what));
  };
  check("(median of the scenarios)", score.drift_left, bounds.median_step_error);
  check("of the worst scenario", score.drift_left_of_worst, bounds.worst_step_error);
  return problems;
}

std::vector<std::string> exceeded(const RealScore& score, const SuiteBounds& bounds) {
  std::vector<std::string> problems;
  if (score.scored < bounds.scored)
    problems.push_back(fmt::format("{} scenarios were measured, the bound asks for {}",
                                   score.scored, bounds.scored));
  const auto check = [&](const char* what, std::optional<double> value,
                         std::optional<double> most) {
    if (above(value, most))
      problems.push_back(
          fmt::format("{} is {:.2f}%, the bound is {:.2f}%", what, *value * 100, *most * 100));
  };
  if (!above(score.drift_left, bounds.median_step_error))
    check("the median error of the step time", score.median_step_error, bounds.median_step_error);
  if (!above(score.drift_left_of_worst, bounds.worst_step_error))
    check("the worst error of the step time", score.worst_step_error, bounds.worst_step_error);
  check("the loss of the forecast's favourite", score.worst_favourite_loss, bounds.favourite_loss);
  check("the worst error of the memory", score.worst_memory_error, bounds.worst_memory_error);
  if (bounds.same_work && score.same_work < score.scored)
    problems.push_back(fmt::format("engine and simulator did different work in {} scenarios",
                                   score.scored - score.same_work));
  return problems;
}

}  // namespace sim
