#include "sim/scores/score.hpp"

#include "tests/catch.hpp"

namespace {

using namespace sim;
using std::chrono::seconds;

RowResult row(int predicted, int measured, RowUse use = RowUse::score, bool fits = true) {
  RowResult result;
  result.row.measured = seconds{measured};
  result.row.use = use;
  result.prediction = Prediction{.time = seconds{predicted}, .peak_memory = {}, .fits = fits};
  return result;
}

TEST_CASE("the error is signed and relative to what was measured", "[scores]") {
  REQUIRE_THAT(row(8, 10).error(), WithinRel(-0.2, 1e-12));
  REQUIRE_THAT(row(12, 10).error(), WithinRel(0.2, 1e-12));
  RowResult skipped;
  REQUIRE_THROWS_AS(skipped.error(), std::logic_error);
}

// Absolute errors 0.1, 0.2, 0.3, 0.4, 0.5: mean and median 0.3, worst 0.5; the 90th percentile lies
// at place 0.9 * 4 = 3.6 of the sorted values, 0.4 + 0.6 * 0.1 = 0.46.
TEST_CASE("a score averages over the rows to score only", "[scores]") {
  RowResult skipped;
  RowResult out_of_memory = row(1, 1, RowUse::score, false);
  out_of_memory.row.outcome = Outcome::out_of_memory;
  const std::vector<RowResult> rows{row(11, 10), row(8, 10),   row(13, 10),
                                    row(6, 10),  row(15, 10),  row(99, 10, RowUse::fit),
                                    skipped,     out_of_memory};
  const SetScore sums = score(rows);
  REQUIRE(sums.rows == 8);
  REQUIRE(sums.scored == 5);
  REQUIRE(sums.skipped == 1);
  REQUIRE_THAT(*sums.average_abs_error, WithinRel(0.3, 1e-12));
  REQUIRE_THAT(*sums.median_abs_error, WithinRel(0.3, 1e-12));
  REQUIRE_THAT(*sums.p90_abs_error, WithinRel(0.46, 1e-12));
  REQUIRE_THAT(*sums.worst_abs_error, WithinRel(0.5, 1e-12));
  REQUIRE_FALSE(sums.rank_correlation);  // all were measured alike: there is no order
}

TEST_CASE("fits is predicted correctly where fitting and running agree", "[scores]") {
  RowResult ran_out = row(1, 1, RowUse::score, false);
  ran_out.row.outcome = Outcome::out_of_memory;
  RowResult ran_out_unseen = ran_out;
  ran_out_unseen.prediction->fits = true;
  const std::vector<RowResult> rows{row(1, 1), row(1, 1, RowUse::score, false), ran_out,
                                    ran_out_unseen, row(1, 1, RowUse::fit)};
  REQUIRE(score(rows).fits_right == 2);
  REQUIRE(score(rows).fits_told == 4);  // a row to fit on never counts
}

TEST_CASE("a set without scored rows has no errors", "[scores]") {
  const std::vector<RowResult> rows{row(2, 1, RowUse::fit)};
  const SetScore sums = score(rows);
  REQUIRE(sums.scored == 0);
  REQUIRE_FALSE(sums.median_abs_error);
  REQUIRE_FALSE(sums.worst_abs_error);
}

// Spearman: 1 - 6 sum(d^2) / (n (n^2 - 1)) without ties. For n = 4 and the two middle ranks
// swapped, sum(d^2) = 2: 1 - 12 / 60 = 0.8.
TEST_CASE("rank correlation is that of the order alone", "[scores]") {
  const std::vector<double> x{1, 2, 3, 4};
  REQUIRE_THAT(*rank_correlation(x, std::vector<double>{10, 200, 3000, 40000}),
               WithinRel(1.0, 1e-12));
  REQUIRE_THAT(*rank_correlation(x, std::vector<double>{4, 3, 2, 1}), WithinRel(-1.0, 1e-12));
  REQUIRE_THAT(*rank_correlation(x, std::vector<double>{1, 3, 2, 4}), WithinRel(0.8, 1e-12));
  // A tie shares ranks 1 and 2: (1.5, 1.5, 3) against (1, 2, 3) has xy = 1.5, xx = 1.5, yy = 2.
  REQUIRE_THAT(*rank_correlation(std::vector<double>{5, 5, 9}, std::vector<double>{1, 2, 3}),
               WithinRel(1.5 / std::sqrt(3.0), 1e-12));
  REQUIRE_FALSE(rank_correlation(std::vector<double>{1}, std::vector<double>{1}));
}

TEST_CASE("a bound is exceeded by a larger error and by a row that drops out", "[scores]") {
  const std::vector<RowResult> rows{row(11, 10), row(12, 10)};  // median 0.15, worst 0.2
  const SetScore sums = score(rows);
  const auto problems = [&](int scored, double median, double worst) {
    return exceeded(
        sums, {.set = "s", .scored = scored, .median_abs_error = median, .worst_abs_error = worst});
  };
  REQUIRE(problems(2, 0.16, 0.21).empty());
  REQUIRE(problems(2, 0.14, 0.21) ==
          std::vector<std::string>{"s: the median error is 15.00%, the bound is 14.00%"});
  REQUIRE(problems(2, 0.16, 0.19) ==
          std::vector<std::string>{"s: the worst error is 20.00%, the bound is 19.00%"});
  REQUIRE(problems(3, 0.16, 0.21) ==
          std::vector<std::string>{"s: 2 rows were scored, the bound asks for 3"});
}

// Two rows with a memory of 100 and 200 bytes, forecast as 110 and 150: errors 10% and 25%.
TEST_CASE("memory is scored beside time, and a bound may hold it", "[scores]") {
  std::vector<RowResult> rows{row(11, 10), row(12, 10)};
  rows[0].row.memory = Bytes{100};
  rows[0].prediction->plan_memory = Bytes{110};
  rows[1].row.memory = Bytes{200};
  rows[1].prediction->plan_memory = Bytes{150};
  rows[1].row.outcome = Outcome::analytic;
  const SetScore sums = score(rows);
  REQUIRE(sums.scored == 1);
  REQUIRE(sums.fits_told == 1);
  REQUIRE(sums.memory_scored == 2);
  REQUIRE_THAT(*sums.median_memory_error, WithinRel(0.175, 1e-12));
  REQUIRE_THAT(*sums.worst_memory_error, WithinRel(0.25, 1e-12));
  ErrorBound bound{.set = "s", .scored = 1, .median_abs_error = 1, .worst_abs_error = 1};
  bound.memory_scored = 3;
  bound.median_memory_error = 0.1;
  bound.worst_memory_error = 0.3;
  bound.fits_right = 2;
  REQUIRE(
      exceeded(sums, bound) ==
      std::vector<std::string>{"s: the memory of 2 rows was scored, the bound asks for 3",
                               "s: the median memory error is 17.50%, the bound is 10.00%",
                               "s: fits is predicted correctly for 1 rows, the bound asks for 2"});
}

}  // namespace
