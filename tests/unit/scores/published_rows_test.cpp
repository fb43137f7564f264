// The shipped tables: every row as a scenario file is the same job, and no row leaves its framework
// to be guessed.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "sim/engine/simulate.hpp"
#include "sim/plan/plan.hpp"
#include "sim/scenario/sources.hpp"
#include "sim/scenario/write_scenario.hpp"
#include "sim/scores/predict.hpp"
#include "sim/scores/published.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/unit/rows/run_cells.hpp"

namespace {

using namespace sim;

const std::string root = sim::test::source_dir();

Scenario as_file(const Scenario& scenario) {
  return load_scenario(ScenarioSources::of_text(scenario_yaml(scenario, root), root + "/row.yaml"));
}

TEST_CASE("every published row is the same job as its scenario file", "[scores]") {
  int same = 0;
  for (const MeasuredSet& set : load_sets(root + "/validation", {}))
    for (const MeasuredRow& row : set.rows) {
      CAPTURE(set.name, row.id);
      const Scenario scenario = row_scenario(set, row);
      const Scenario file = as_file(scenario);
      CHECK(file.framework == scenario.framework);
      CHECK(file.layout == scenario.layout);
      CHECK(file.preset == scenario.preset);
      CHECK(file.followed.empty());
      ++same;
    }
  CHECK(same > 1800);
}

TEST_CASE("one row of every set takes as long as its scenario file", "[scores]") {
  for (const MeasuredSet& set : load_sets(root + "/validation", {})) {
    const auto row = std::ranges::find_if(
        set.rows, [](const MeasuredRow& one) { return one.outcome != Outcome::analytic; });
    if (row == set.rows.end() || set.quantity != Quantity::step) continue;
    CAPTURE(set.name, row->id);
    const Scenario file = as_file(row_scenario(set, *row));
    const Simulation simulation =
        simulate(make_plan(file.model, file.layout), file.cluster, file.options);
    const RowResult result = predict(set, *row);
    REQUIRE(result.prediction);
    CHECK(simulation.timeline.end.time_since_epoch() == result.prediction->time);
  }
}

TEST_CASE("every row of a published table names its framework", "[scores]") {
  for (const MeasuredSet& set : load_sets(root + "/validation", {}))
    for (const MeasuredRow& row : set.rows) {
      if (!row.cells) continue;
      CAPTURE(set.name, row.id);
      CHECK(row.cells->keys.contains("framework.name"));
      CHECK_FALSE(row.cells->is_read_from_words);
      CHECK(row.inferred.empty());
    }
}

}  // namespace
