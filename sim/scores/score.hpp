// Errors of a set of predictions, and whether they keep within its recorded bound.
//
// The absolute error of a row is |predicted - measured| / measured. Quantiles interpolate linearly
// between order statistics (Hyndman & Fan 1996, type 7). The rank correlation is Spearman's: did
// the forecast order the runs rightly.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/base/control.hpp"
#include "sim/rows/measured.hpp"
#include "sim/scores/predict.hpp"

namespace sim {

struct SetScore {
  int rows = 0;
  int scored = 0;      // predicted, ran, and not for fitting
  int skipped = 0;     // not simulated
  int unreadable = 0;  // of those: rows of a table that could not be read
  // The errors of the scored rows; nothing without any.
  std::optional<double> average_abs_error, median_abs_error, p90_abs_error, worst_abs_error;
  std::optional<double> rank_correlation;  // nothing for fewer than two, or all equal
  // Rows to score that ran or ran out of memory and were predicted, and for how many of them the
  // forecast says rightly which.
  int fits_told = 0;
  int fits_right = 0;
  int memory_scored = 0;
  std::optional<double> median_memory_error, worst_memory_error;  // of those
};
SetScore score(std::span<const RowResult> results);

// exceeded() says what exceeds the bound, one sentence each; empty: none.
std::vector<std::string> exceeded(const SetScore& score, const ErrorBound& bound);

struct SetResult {
  MeasuredSet set;
  std::vector<RowResult> rows;
  SetScore score;
};
// Throws Stopped.
SetResult validate(const MeasuredSet& set, const PredictOptions& options = {},
                   const Control& control = {});

// The value below which a share `q` of `values` lies. REQUIRES: values, 0 <= q <= 1.
double quantile(std::vector<double> values, double q);
std::optional<double> rank_correlation(std::span<const double> x, std::span<const double> y);

}  // namespace sim
