// Fits the error of the time forecast to measured rows, and tests the intervals that follow on sets
// that were left out.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "sim/scores/errors/error_rows.hpp"
#include "sim/uncertainty/time_error.hpp"

namespace sim {

// How many of a set's held-out rows the intervals hold that the other sets give. A set without any
// counts its rows to fit: the model of errors has not seen them.
struct Coverage {
  std::string set;
  int rows = 0, held = 0;
  double median_half_width = 0;  // of ln(time)
  double multiple = 0;           // half a width in deviations, as the other sets give it
};

struct TimeErrorFit {
  TimeErrorModel model;            // of all rows
  std::vector<Coverage> coverage;  // by set, in order of first appearance
};

// Deviations of what no row has: a machine, a category.
struct OutsideSpread {
  double unmeasured = 0;
  double unlike = 0;
};

// `level`: the level of the intervals. REQUIRES: rows of three sets or more.
TimeErrorFit fit_time_error(std::span<const ErrorRow> rows, const OutsideSpread& outside,
                            double level = 0.9);

// The model of the rows that are not of `set`: for its own forecasts. `start`: the model of all
// rows.
TimeErrorModel without_set(std::span<const ErrorRow> rows, const std::string& set,
                           const TimeErrorModel& start);

// The standard deviation, over the shipped devices that a training step was measured on, of
// ln(share of the data sheet's 16-bit rate that a step sustains): how far off a device may be whose
// share is taken from others.
double spread_of_devices();

// How far off a job may be that is unlike every row: the root of the mean square of
// ln(measured / forecast) in a table of `validation/beyond`, of the median table. Those runs are
// published without what the forecast needs, or do what it does not model.
double spread_beyond();

// validation/time-error.yaml.
std::string time_error_file(const TimeErrorFit& fit);
std::string coverage_table(std::span<const Coverage> coverage);

}  // namespace sim
