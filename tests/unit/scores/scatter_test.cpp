#include "sim/scores/scatter.hpp"

#include "tests/catch.hpp"

namespace {

using namespace sim;

SetResult one_row(double measured, double predicted, RowUse use) {
  SetResult result;
  result.set.name = "a<b";
  RowResult row;
  row.row.id = "r&0";
  row.row.use = use;
  row.row.measured = duration_from_seconds(measured);
  row.prediction = Prediction{.time = duration_from_seconds(predicted)};
  result.rows = {row};
  result.score = score(result.rows);
  return result;
}

// Two decades from 1 to 100 s on 560 units: 10 s lies in the middle, at 70 + 280 and 30 + 280.
TEST_CASE("a row is a point at the logarithms of its times", "[scores]") {
  const std::vector<SetResult> results{one_row(1, 100, RowUse::score),
                                       one_row(10, 10, RowUse::fit)};
  const std::string svg = scatter_svg(results);
  REQUIRE(svg.find(R"(cx="70.0" cy="30.0" r="2.5" fill="#0072b2")") != std::string::npos);
  REQUIRE(svg.find(R"(cx="350.0" cy="310.0" r="2.5" fill="none")") != std::string::npos);
  REQUIRE(svg.find("<title>r&amp;0 +9900.0%</title>") != std::string::npos);
  REQUIRE(svg.find("a&lt;b, median 9900.0%") != std::string::npos);
}

TEST_CASE("sets of one colour differ in shape", "[scores]") {
  const std::vector<SetResult> results(11, one_row(10, 10, RowUse::fit));
  const std::string svg = scatter_svg(results);
  const auto count = [&](const std::string& text) {
    std::size_t found = 0;
    for (std::size_t at = svg.find(text); at != std::string::npos; at = svg.find(text, at + 1))
      ++found;
    return found;
  };
  // A point and a mark in the legend each.
  CHECK(count("<circle") == 20);
  CHECK(count(R"(width="5" height="5" fill="none" stroke="#0072b2")") == 1);
  CHECK(count(R"(width="8" height="8" fill="#0072b2")") == 1);
}

TEST_CASE("rows without a time are left out, and nothing at all is a picture too", "[scores]") {
  SetResult empty = one_row(1, 1, RowUse::score);
  empty.rows[0].row.outcome = Outcome::out_of_memory;
  const std::string svg = scatter_svg(std::span{&empty, 1});
  REQUIRE(svg.find("a&lt;b") == std::string::npos);
  REQUIRE(svg.find("r=\"2.5\"") == std::string::npos);
  REQUIRE(svg.find("nan") == std::string::npos);
  REQUIRE(scatter_svg({}).ends_with("</svg>\n"));
}

}  // namespace
