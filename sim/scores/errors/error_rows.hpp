// The errors of the time forecast, row by row, with what they may depend on: what
// validation/time-error.yaml is fitted to.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/scores/score.hpp"
#include "sim/uncertainty/job_traits.hpp"

namespace sim {

struct ErrorRow {
  std::string set, row;
  std::string
      trainer{};  // whose run it is, of rows without their framework (unnamed_error_fit.hpp)
  RowUse use = RowUse::score;
  JobTraits traits;
  double memory_use = 0;  // of the fullest GPU, by the forecast, as a share of what it has
  double log_error = 0;   // ln(measured / forecast): positive, the forecast is too fast
};

// Every row with a measured and a forecast step. REQUIRES: forecast with their traits.
std::vector<ErrorRow> error_rows(std::span<const SetResult> results);

std::string error_rows_csv(std::span<const ErrorRow> rows);

}  // namespace sim
