// The error of the memory forecast by measured rows.
#include "sim/scores/errors/memory_error_rows.hpp"

#include <limits>

#include "tests/catch.hpp"

using namespace sim;

namespace {

double quantile_within(std::span<const MemoryExcess> values, double share) {
  return quantiles_within(values, {&share, 1}).front();
}

constexpr double infinity = std::numeric_limits<double>::infinity();

MemoryExcess known(double excess) {
  return {.set = "s", .above = excess, .up_to = excess};
}
MemoryExcess ran_with(double room) {
  return {.set = "s", .above = -infinity, .up_to = room};
}
MemoryExcess failed_with(double room) {
  return {.set = "s", .above = room, .up_to = infinity};
}

RowResult row_of(Outcome outcome, Bytes peak, std::optional<double> excess = {}) {
  RowResult row;
  row.row.outcome = outcome;
  row.prediction = Prediction{.peak_memory = peak,
                              .fits = peak <= Bytes{100},
                              .framework = FrameworkName::scaling,
                              .schedule = Schedule::gpipe,
                              .capacity = Bytes{100},
                              .memory_excess = excess};
  return row;
}

SetResult set_of(std::vector<RowResult> rows) {
  SetResult result;
  result.set.name = std::string{"s"};
  result.rows = std::move(rows);
  return result;
}

}  // namespace

TEST_CASE("of measured excesses the quantile is that of the values", "[scores]") {
  std::vector<MemoryExcess> values;
  for (int i = 1; i <= 10; ++i)
    values.push_back(known(i / 100.0));
  CHECK(quantile_within(values, 0.9) == 0.09);
  CHECK(quantile_within(values, 0.91) == 0.10);
  CHECK(quantile_within(values, 0) == 0.01);
}

// By outcomes alone the distribution is the share of runs that ran, made to rise with their room
// (isotonic regression): here 1/2 with rooms of 1 and 2%, 1 from 3% on.
TEST_CASE("of outcomes the quantile is the room with which that share ran", "[scores]") {
  const std::vector<MemoryExcess> values{failed_with(0.01), ran_with(0.02),  failed_with(-0.5),
                                         ran_with(0.03),    ran_with(0.5),   ran_with(0.3),
                                         failed_with(0.02), ran_with(0.0101)};
  CHECK(quantile_within(values, 0.5) == 0.0101);
  CHECK(quantile_within(values, 0.9) == 0.03);
}

TEST_CASE("a run that failed with more room than any that ran leaves the quantile open",
          "[scores]") {
  CHECK(quantile_within(std::vector{known(0.01), failed_with(0.2)}, 0.9) == infinity);
  CHECK(quantile_within(std::vector{known(0.01), failed_with(0.2)}, 0.5) == 0.01);
}

// Turnbull 1976: (0, 1] and (1, 2] hold a value each, (0, 2] spreads over both.
TEST_CASE("what lies in an interval counts in proportion to what is known there", "[scores]") {
  const std::vector<MemoryExcess> values{{.set = "s", .above = 0, .up_to = 1},
                                         {.set = "s", .above = 0, .up_to = 1},
                                         {.set = "s", .above = 1, .up_to = 2},
                                         {.set = "s", .above = 0, .up_to = 2}};
  CHECK(quantile_within(values, 0.66) == 1);  // 2/3 at 1
  CHECK(quantile_within(values, 0.67) == 2);
}

TEST_CASE("an outcome counts in sets that list failures, a measured memory in all", "[scores]") {
  const auto ran = row_of(Outcome::ran, Bytes{80});
  const auto measured = row_of(Outcome::ran, Bytes{50}, 0.04);
  const auto failed = row_of(Outcome::out_of_memory, Bytes{90});
  CHECK(memory_excesses(std::vector{set_of({ran, measured})}).size() == 1);
  const std::vector<MemoryExcess> all =
      memory_excesses(std::vector{set_of({ran, measured, failed})});
  REQUIRE(all.size() == 3);
  CHECK_THAT(all[0].up_to, WithinRel(0.25, 1e-12));
  CHECK(all[0].above == -infinity);
  CHECK(all[1].is_known());
  CHECK(all[1].up_to == 0.04);
  CHECK_THAT(all[2].above, WithinRel(1.0 / 9, 1e-12));
  CHECK(all[2].framework == FrameworkName::scaling);
  CHECK(all[2].schedule == Schedule::gpipe);
  RowResult analytic = row_of(Outcome::analytic, Bytes{50}, 0.04);
  CHECK(memory_excesses(std::vector{set_of({analytic})}).empty());
}

TEST_CASE("the file has a line for all, for who has rows enough, and for each set left out",
          "[scores]") {
  std::vector<MemoryExcess> values;
  for (int i = 0; i < 30; ++i) {
    MemoryExcess value = known(0.001 * i);
    value.schedule = i < 25 ? Schedule::one_f_one_b : Schedule::gpipe;
    values.push_back(value);
  }
  values.push_back({.set = "t", .framework = FrameworkName::pytorch, .above = -0.5, .up_to = -0.5});
  const std::string text = memory_error_yaml(values);
  CHECK(text.substr(text.find("errors:")) ==
        "errors:\n"
        "  - {error: 0.0260, rows: 31, measured: 31, excess: [-0.5000, 0.0000, 0.0020, 0.0060, "
        "0.0140, 0.0220, 0.0260, 0.0280, 0.0290]}\n"
        "  - {framework: megatron, error: 0.0260, rows: 30, measured: 30, excess: [0.0000, 0.0010, "
        "0.0020, 0.0070, 0.0140, 0.0220, 0.0260, 0.0280, 0.0290]}\n"
        "  - {framework: megatron, schedule: 1f1b, error: 0.0220, rows: 25, measured: 25, excess: "
        "[0.0000, 0.0010, 0.0020, 0.0060, 0.0120, 0.0180, 0.0220, 0.0230, 0.0240]}\n"
        "  # With a set left out, for forecasts of its own rows:\n"
        "  - {without: s, error: 0.0000, rows: 1, measured: 1, excess: [-0.5000, -0.5000, -0.5000, "
        "-0.5000, -0.5000, -0.5000, -0.5000, -0.5000, -0.5000]}\n"
        "  - {without: t, error: 0.0260, rows: 30, measured: 30, excess: [0.0000, 0.0010, 0.0020, "
        "0.0070, 0.0140, 0.0220, 0.0260, 0.0280, 0.0290]}\n");
}
