// Printed tables of a result.
#include "sim/convergence/tables.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/catch.hpp"
#include "tests/unit/convergence/fixture.hpp"

namespace sim {
namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the table has a row for each scheme, and says what is not reached") {
  const std::string text = convergence_table(test::straight_lines());
  INFO(text);
  CHECK(has(text, "lines: straight lines\n"));
  CHECK(has(text, "4 replicas, 8 x 16 tokens per step, 101 steps, seeds 7, 8\n"));
  CHECK(has(text, "50 % of the fall: loss 4.250 ±0.354, baseline at step 50.0 ±0.0\n"));
  CHECK(has(text, "2.00 ±0.00"));
  CHECK(has(text, "not reached, > 1.25"));
  CHECK(has(text, "1 of 2 reached, > 2.00"));
  CHECK_FALSE(has(text, "interrupted"));
  CHECK(has(convergence_markdown(test::straight_lines()), "| half | "));
}

TEST_CASE("an interrupted suite and a failed run are told") {
  ConvergenceResult result = test::straight_lines();
  result.interrupted = true;
  result.curves[3] = {.scheme = 1,
                      .seed = 8,
                      .losses = {5},
                      .end = SeedEnd::failed,
                      .failure = "step 1: the loss is not finite"};
  result.curves[5].end = SeedEnd::not_run;
  score_curves(result.factors, result.curves);
  const std::string text = convergence_table(result);
  INFO(text);
  CHECK(has(text, "half, seed 8: step 1: the loss is not finite\n"));
  CHECK(has(text, "(1 failed)"));
  CHECK(has(text, "interrupted: 4 of 6 runs were trained to the end; only they count\n"));
}

TEST_CASE("CSV has the loss of every step by step and by token") {
  const std::string text = convergence_csv(test::straight_lines());
  CHECK(
      text.starts_with("scheme,seed,step,tokens,loss,smoothed_loss\n"
                       "none,7,0,0,5.000000,5.000000\nnone,7,1,128,4.990000,4.990000\n"));
  CHECK(std::ranges::count(text, '\n') == 1 + 6 * 101);
}

TEST_CASE("JSON has factors and curves") {
  const auto json = nlohmann::json::parse(convergence_json(test::straight_lines()));
  CHECK(json["baseline"] == "none");
  CHECK(json["interrupted"] == false);
  REQUIRE(json["schemes"].size() == 3);
  const auto& half = json["schemes"][1];
  CHECK(half["set"]["layout.compression.density"] == "0.010");
  CHECK(half["targets"][0]["fall"] == 0.5);
  CHECK_THAT(half["targets"][0]["factor"]["mean"].get<double>(), WithinRel(2.0, 1e-9));
  CHECK(half["targets"][1]["factor"].is_null());
  CHECK(half["targets"][1]["by_seed"][0].is_null());
  CHECK(half["curves"].size() == 2);
  CHECK(half["curves"][1]["steps"][2]["tokens"] == 256);
}

}  // namespace sim
