#include "sim/scores/tables.hpp"

#include "tests/catch.hpp"

namespace {

using namespace sim;

SetResult sample() {
  SetResult result;
  result.set.name = "demo";
  result.set.title = "A demonstration";
  result.set.source = "nobody, 2026";
  RowResult scored;
  scored.row.id = "r0";
  scored.row.measured = std::chrono::seconds{2};
  scored.prediction = Prediction{
      .time = std::chrono::milliseconds{2500}, .peak_memory = Bytes{3LL << 30}, .fits = true};
  RowResult skipped;
  skipped.row.id = "r1";
  skipped.row.use = RowUse::fit;
  skipped.row.measured = std::chrono::seconds{4};
  skipped.skipped = "a.yaml:1: \"no\"";
  result.rows = {scored, skipped};
  result.score = score(result.rows);
  return result;
}

TEST_CASE("JSON has the documented fields, null where there is no value", "[scores]") {
  const SetResult result = sample();
  REQUIRE(validation_json(std::span{&result, 1}) == R"({
  "sets": [
    {
      "name": "demo",
      "rows": 2,
      "scored": 1,
      "skipped": 1,
      "unreadable": 0,
      "average_abs_error": 0.25,
      "median_abs_error": 0.25,
      "p90_abs_error": 0.25,
      "worst_abs_error": 0.25,
      "rank_correlation": null,
      "fits_right": 1,
      "fits_told": 1,
      "memory_scored": 0,
      "median_memory_error": null,
      "worst_memory_error": null
    }
  ],
  "rows": [
    {
      "row_id": "r0",
      "use": "score",
      "predicted_s": 2.5,
      "measured_s": 2.0,
      "error": 0.25,
      "predicted_peak_mem_bytes": 3221225472,
      "fits": true
    },
    {
      "row_id": "r1",
      "use": "fit",
      "predicted_s": null,
      "measured_s": 4.0,
      "error": null,
      "predicted_peak_mem_bytes": null,
      "fits": null,
      "skipped": "a.yaml:1: \"no\""
    }
  ]
}
)");
}

TEST_CASE("CSV has a line per row, with reasons quoted", "[scores]") {
  const SetResult result = sample();
  REQUIRE(validation_csv(std::span{&result, 1}) ==
          "set,row_id,use,predicted_s,measured_s,error,predicted_peak_mem_bytes,fits,memory_error,"
          "skipped\n"
          "demo,r0,score,2.5,2,0.25,3221225472,true,,\n"
          "demo,r1,fit,,4,,,,,\"a.yaml:1: \"\"no\"\"\"\n");
}

TEST_CASE("the table shows every row and the score of the set", "[scores]") {
  const SetResult result = sample();
  REQUIRE(validation_table(std::span{&result, 1}) ==
          "demo: A demonstration\n"
          "nobody, 2026\n"
          "row                              use   predicted s     measured s    error  memory GiB"
          "  fits\n"
          "r0                             score        2.5000         2.0000   +25.0%         3.0"
          "   yes\n"
          "r1                               fit             -         4.0000        -           -"
          "     -\n"
          "  skipped: a.yaml:1: \"no\"\n"
          "2 rows, 1 scored, 1 skipped; absolute error: average 25.0%, median 25.0%, p90 25.0%, "
          "worst 25.0%; fits predicted correctly for 1 of 1\n");
}

TEST_CASE("Markdown has a table of sets and one of rows", "[scores]") {
  const SetResult result = sample();
  const std::string text = validation_markdown(std::span{&result, 1});
  REQUIRE(text.find("| demo | 2 | 1 | 1 | 25.0% | 25.0% | 25.0% | 25.0% | - |\n") !=
          std::string::npos);
  REQUIRE(text.find("| r0 | score | 2.5000 | 2.0000 | +25.0% | 3.0 | yes |\n") !=
          std::string::npos);
}

}  // namespace
