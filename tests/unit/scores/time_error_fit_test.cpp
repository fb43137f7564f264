// The fit of the model of errors on rows whose errors are made by that model.
#include "sim/scores/errors/time_error_fit.hpp"

#include <fmt/format.h>

#include <cmath>
#include <random>

#include "sim/scores/errors/unnamed_error_fit.hpp"
#include "tests/catch.hpp"

using namespace sim;

namespace {

// `sets` machines that are off by a common factor each, with rows that scatter less.
std::vector<ErrorRow> rows_of(int sets, int rows, double machine, double rest) {
  std::mt19937_64 random{11};
  std::normal_distribution<double> normal;
  std::vector<ErrorRow> made;
  for (int s = 0; s < sets; ++s) {
    const double off = machine * normal(random);
    for (int i = 0; i < rows; ++i) {
      ErrorRow row;
      row.set = fmt::format("set {}", s);
      row.row = fmt::format("{}", i);
      row.traits.job = fmt::format("job {}", i % 4);
      row.traits.gpus = 8 << (i % 5);
      row.traits.shares = {.products = 0.8, .memory_kernels = 0.1, .tensor = 0.02 * (i % 3)};
      row.log_error = off + rest * normal(random);
      made.push_back(row);
    }
  }
  return made;
}

}  // namespace

TEST_CASE("Intervals hold about the share of rows of sets left out that they promise", "[scores]") {
  const TimeErrorFit fit =
      fit_time_error(rows_of(30, 20, 0.06, 0.02), {.unmeasured = 0.2, .unlike = 0.2});
  CHECK(fit.model.rows == 600);
  CHECK(fit.model.sets == 30);
  int rows = 0, held = 0;
  for (const Coverage& of : fit.coverage) {
    rows += of.rows;
    held += of.held;
  }
  CHECK(rows == 600);
  CHECK(held > 0.82 * rows);
  CHECK(held < 0.96 * rows);
  // Nearly all of it is the machine's: 1.64 x 0.06.
  CHECK(fit.coverage.front().median_half_width > 0.07);
  CHECK(fit.coverage.front().median_half_width < 0.14);
}

TEST_CASE("A set's own rows have no part in its intervals", "[scores]") {
  std::vector<ErrorRow> rows = rows_of(8, 10, 0.05, 0.02);
  const TimeErrorModel all = fit_time_error(rows, {.unmeasured = 0.2, .unlike = 0.2}).model;
  const TimeErrorModel before = without_set(rows, "set 0", all);
  for (ErrorRow& row : rows)
    if (row.set == "set 0") row.log_error += 3;
  const TimeErrorModel after = without_set(rows, "set 0", all);
  CHECK(before.rest == after.rest);
  CHECK(before.deviation == after.deviation);
  CHECK(before.rows == 70);
}

TEST_CASE("The spread of devices is that of their shares of the data sheet's rate", "[scores]") {
  CHECK(spread_of_devices() > 0.05);
  CHECK(spread_of_devices() < 0.6);
}

TEST_CASE("What is not known of a framework is found from set to set", "[scores]") {
  const std::vector<ErrorRow> named = rows_of(12, 10, 0.03, 0.02);
  const TimeErrorFit fit = fit_time_error(named, {.unmeasured = 0.2, .unlike = 0.2});
  // As if without their frameworks, every set takes longer, by 0.1 to 0.5.
  UnnamedRows rows{.left_out = rows_of(12, 10, 0.03, 0.02), .held_out = {}};
  for (ErrorRow& row : rows.left_out) {
    row.traits.named = false;
    row.trainer = row.set;
    row.log_error += 0.1 + 0.4 * std::stoi(row.set.substr(4)) / 11;
  }
  rows.held_out = {rows.left_out.begin(), rows.left_out.begin() + 10};
  for (ErrorRow& row : rows.held_out) {
    row.set = row.trainer = "another";
    row.log_error += 3;
  }
  const UnnamedErrorFit unnamed = fit_unnamed_error(rows, named, fit);
  CHECK(unnamed.error.mean > 0.25);
  CHECK(unnamed.error.mean < 0.35);
  CHECK(unnamed.error.deviation > 0.05);
  CHECK(unnamed.error.deviation < 0.4);
  CHECK(unnamed.error.sets == 12);
  CHECK(unnamed.error.rows == 120);
  int held = 0;
  for (const Coverage& of : unnamed.left_out)
    held += of.held;
  CHECK(held > 0.75 * 120);
  // Nothing rests on what is held out.
  REQUIRE(unnamed.held_out.size() == 1);
  CHECK(unnamed.held_out[0].rows == 10);
  CHECK(unnamed.held_out[0].held == 0);
}
