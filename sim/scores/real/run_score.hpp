// Real runs beside their forecasts, as numbers: how far off, in which order, within which bounds.
//
// Error: (predicted - measured) / measured. Layouts are comparable where they train the same model
// on the same tokens per step: within such a family the forecast ranks them. Spearman's rho and
// Kendall's tau-b (Kendall 1945: ties count for neither side) say whether rightly; the loss of the
// favourite is what a user pays who takes the layout that the forecast puts first:
// measured(favourite) / measured(true best) - 1.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/scores/real/real_drift.hpp"
#include "sim/scores/real/real_suite.hpp"
#include "sim/timeline/breakdown.hpp"

namespace sim {

struct RealRow {
  std::string name;
  std::string family;  // "gpt-124m, 8 x 1024 tokens": what layouts are compared within
  std::string layout;  // "tp 2, dp 2, zero 1"
  std::string failed;  // why there is no measurement; empty: there is one
  Duration predicted{}, measured{};  // step time; measured: the median, less the machine's drift
  Duration as_timed{};               // the median as it was timed
  std::optional<Drift> drift;        // nothing: calibrated or recorded without the reference
  std::vector<Duration> steps;       // measured, in order
  Breakdown predicted_parts, measured_parts;  // mean over ranks
  Bytes planned_memory{}, used_memory{};      // of the arena, of the worst rank
  Bytes device_memory{};                      // used besides: context, libraries
  std::string difference;  // the first thing that engine and simulator did differently
  double first_loss = 0, last_loss = 0;

  bool scored() const { return failed.empty(); }
  // REQUIRES: scored().
  double step_error() const;
  double memory_error() const;
};

struct FamilyScore {
  std::string family;
  int layouts = 0;
  std::optional<double> spearman, kendall;  // nothing for fewer than two, or all equal
  std::string favourite, best;              // names of rows; the same for a single layout
  double favourite_loss = 0;
};

struct RealScore {
  int rows = 0, scored = 0;
  int same_work = 0;  // of the scored rows
  std::optional<double> median_step_error, worst_step_error, worst_memory_error;  // absolute
  std::string worst_row;
  double bias = 0;  // median of the signed error
  // drift: the median slowdown of the machine over the rows with a reference, less 1. drift_left:
  // what the reference cannot take out, the median, and of the row with the worst error.
  std::optional<double> drift, drift_left, drift_left_of_worst;
  double least_drift = 0, most_drift = 0;
  std::vector<FamilyScore> families;  // in the order of the rows
  std::optional<double> worst_favourite_loss;
};

RealScore score_real(std::span<const RealRow> rows);

// too_noisy() says which step times cannot be judged, one sentence each: the drift that the
// reference leaves is larger than the bound, so the error is not known to within what it would be
// judged by.
std::vector<std::string> too_noisy(const RealScore& score, const SuiteBounds& bounds);
// exceeded() says what exceeds the bounds and is no matter of too_noisy(), one sentence each;
// empty: none.
std::vector<std::string> exceeded(const RealScore& score, const SuiteBounds& bounds);

// Kendall's tau-b. Nothing for fewer than two, or where one side is all equal.
std::optional<double> kendall_tau(std::span<const double> x, std::span<const double> y);

struct RealResult {
  RealSuite suite;
  std::string date;                      // ISO 8601
  std::string machine;                   // host and device that it ran on
  std::vector<std::string> calibration;  // provenance of the forecast
  std::string without_drift;             // why times are as they were timed; empty: they are not
  std::vector<RealRow> rows;
  RealScore score;
};

// Ranks of the host backend that outnumber the cores of the machine (": PROCESSOR, N cores") take
// turns: while one waits for another, that one gets the core. Their kernels last longer or shorter
// than in a forecast and their waits the opposite; only the step as a whole is comparable. Returns
// the cores then, else nothing.
std::optional<int> shared_cores(const RealResult& result);

}  // namespace sim
