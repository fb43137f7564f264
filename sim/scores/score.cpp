#include "sim/scores/score.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/base/parallel.hpp"
#include "sim/scores/alike_rows.hpp"

namespace sim {
namespace {

// 1 for the smallest; equal values share the mean of their ranks.
std::vector<double> ranks_of(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t last = first;
    while (last + 1 < order.size() && values[order[last + 1]] == values[order[first]])
      ++last;
    for (std::size_t i = first; i <= last; ++i)
      ranks[order[i]] = 1 + static_cast<double>(first + last) / 2;
    first = last + 1;
  }
  return ranks;
}

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

double quantile(std::vector<double> values, double q) {
  SIM_CHECK(!values.empty() && q >= 0 && q <= 1, values.size(), q);
  std::sort(values.begin(), values.end());
  const double place = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  if (below + 1 >= values.size()) return values.back();
  return values[below] + (place - static_cast<double>(below)) * (values[below + 1] - values[below]);
}

std::optional<double> rank_correlation(std::span<const double> x, std::span<const double> y) {
  SIM_CHECK(x.size() == y.size(), x.size(), y.size());
  if (x.size() < 2) return std::nullopt;
  const std::vector<double> ranks_x = ranks_of(x);
  const std::vector<double> ranks_y = ranks_of(y);
  const double mean_rank = mean(ranks_x);  // of both: they rank equally many
  double xx = 0, yy = 0, xy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double dx = ranks_x[i] - mean_rank;
    const double dy = ranks_y[i] - mean_rank;
    xx += dx * dx;
    yy += dy * dy;
    xy += dx * dy;
  }
  if (xx == 0 || yy == 0) return std::nullopt;
  return xy / std::sqrt(xx * yy);
}

SetScore score(std::span<const RowResult> results) {
  SetScore sums;
  sums.rows = static_cast<int>(results.size());
  std::vector<double> errors, memory_errors, predicted, measured;
  for (const RowResult& result : results) {
    if (!result.prediction) {
      ++sums.skipped;
      if (!result.row.unreadable.empty()) ++sums.unreadable;
      continue;
    }
    if (result.row.outcome != Outcome::analytic && result.row.use == RowUse::score) {
      ++sums.fits_told;
      if (result.prediction->fits == (result.row.outcome == Outcome::ran)) ++sums.fits_right;
    }
    if (result.memory_scored()) memory_errors.push_back(std::abs(result.memory_error()));
    if (!result.scored()) continue;
    errors.push_back(std::abs(result.error()));
    predicted.push_back(to_seconds(result.prediction->time));
    measured.push_back(to_seconds(result.row.measured));
  }
  sums.memory_scored = static_cast<int>(memory_errors.size());
  if (!memory_errors.empty()) {
    sums.median_memory_error = quantile(memory_errors, 0.5);
    sums.worst_memory_error = quantile(memory_errors, 1);
  }
  sums.scored = static_cast<int>(errors.size());
  if (errors.empty()) return sums;
  sums.average_abs_error = mean(errors);
  sums.median_abs_error = quantile(errors, 0.5);
  sums.p90_abs_error = quantile(errors, 0.9);
  sums.worst_abs_error = quantile(errors, 1);
  sums.rank_correlation = rank_correlation(predicted, measured);
  return sums;
}

std::vector<std::string> exceeded(const SetScore& score, const ErrorBound& bound) {
  std::vector<std::string> problems;
  if (score.scored < bound.scored)
    problems.push_back(fmt::format("{}: {} rows were scored, the bound asks for {}", bound.set,
                                   score.scored, bound.scored));
  const auto check = [&](const char* what, std::optional<double> value, double most) {
    if (value && *value > most)
      problems.push_back(fmt::format("{}: the {} error is {:.2f}%, the bound is {:.2f}%", bound.set,
                                     what, *value * 100, most * 100));
  };
  check("median", score.median_abs_error, bound.median_abs_error);
  check("worst", score.worst_abs_error, bound.worst_abs_error);
  if (score.memory_scored < bound.memory_scored)
    problems.push_back(fmt::format("{}: the memory of {} rows was scored, the bound asks for {}",
                                   bound.set, score.memory_scored, bound.memory_scored));
  check("median memory", score.median_memory_error, bound.median_memory_error);
  check("worst memory", score.worst_memory_error, bound.worst_memory_error);
  if (score.fits_right < bound.fits_right)
    problems.push_back(
        fmt::format("{}: fits is predicted correctly for {} rows, the bound asks for {}", bound.set,
                    score.fits_right, bound.fits_right));
  return problems;
}

SetResult validate(const MeasuredSet& set, const PredictOptions& options, const Control& control) {
  SetResult result{.set = set, .rows = {}, .score = {}};
  result.rows.resize(set.rows.size());
  const std::vector<std::vector<std::size_t>> groups = alike_rows(set, options.without);
  std::atomic<std::size_t> done{0};
  for_each_piece(groups.size(), control, [&](std::size_t i) {
    std::vector<const MeasuredRow*> rows;
    for (const std::size_t row : groups[i])
      rows.push_back(&set.rows[row]);
    std::vector<RowResult> made = predict(set, rows, options, {.stop = control.stop});
    for (std::size_t row = 0; row < made.size(); ++row)
      result.rows[groups[i][row]] = std::move(made[row]);
    const std::size_t now = done += made.size();
    control.tell("rows", static_cast<double>(now) / static_cast<double>(set.rows.size()));
  });
  result.score = score(result.rows);
  return result;
}

}  // namespace sim
