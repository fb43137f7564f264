// Steps of MLPerf Training on AMD's GPUs: validation/recipes/amd.csv. Nothing was fitted to the
// rows to score.
#include "sim/scores/score.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"

namespace {

using namespace sim;

TEST_CASE("held-out steps on AMD's GPUs stay within their bounds", "[scores]") {
  const std::string root = sim::test::source_dir();
  const SetResult result = validate(load_table_set(root + "/validation/recipes/amd.csv", root));
  CHECK(result.score.skipped == 0);
  CHECK(result.score.scored == 19);
  REQUIRE(result.score.median_abs_error);
  CHECK(*result.score.median_abs_error < 0.016);
  CHECK(*result.score.p90_abs_error < 0.056);
  CHECK(*result.score.worst_abs_error < 0.11);
  CHECK(result.score.fits_right == result.score.fits_told);
}

}  // namespace
