#include "sim/scores/alike_rows.hpp"

#include "sim/base/work.hpp"
#include "sim/scores/score.hpp"
#include "tests/catch.hpp"
#include "tests/unit/rows/run_cells.hpp"

namespace {

using namespace sim;
using Cells = std::vector<std::pair<std::string, std::string>>;

MeasuredRow row_of(const Cells& changes, Duration measured) {
  MeasuredRow row;
  row.cells = sim::test::cells_with(changes);
  row.id = std::string{(*row.cells)["row_id"]};
  row.measured = measured;
  return row;
}

MeasuredSet repeated_runs() {
  MeasuredSet set;
  set.data_folder = sim::test::source_dir();
  const auto seconds = [](int s) { return Duration{std::chrono::seconds{s}}; };
  set.rows = {row_of({{"row_id", "a"}}, seconds(1)), row_of({{"row_id", "b"}, {"tp", "5"}}, {}),
              row_of({{"row_id", "c"}, {"recompute", "full"}}, seconds(2)),
              row_of({{"row_id", "d"}, {"notes", "another day"}}, seconds(3)),
              row_of({{"row_id", "e"}, {"tp", "5"}}, {})};
  return set;
}

TEST_CASE("rows of one job are a group; what no scenario can be made of is alone", "[scores]") {
  using Groups = std::vector<std::vector<std::size_t>>;
  REQUIRE(alike_rows(repeated_runs(), Mechanism::none) == Groups{{0, 3}, {1}, {2}, {4}});
  MeasuredSet computed = repeated_runs();
  computed.rows[3].outcome = Outcome::analytic;  // has no time
  REQUIRE(alike_rows(computed, Mechanism::none) == Groups{{0}, {1}, {2}, {3}, {4}});
}

TEST_CASE("rows of one job are forecast once, and as each alone", "[scores]") {
  MeasuredSet set = repeated_runs();
  set.rows[3].memory = Bytes{std::int64_t{10} << 30};
  const auto planned = [] {
    return work_counts[static_cast<std::size_t>(Work::operators_planned)].load();
  };
  std::uint64_t before = planned();
  std::vector<RowResult> alone;
  for (const MeasuredRow& row : set.rows)
    alone.push_back(predict(set, row));
  const std::uint64_t one_by_one = planned() - before;
  before = planned();
  const std::vector<RowResult> together = validate(set).rows;
  REQUIRE(planned() - before < one_by_one);
  for (std::size_t i = 0; i < alone.size(); ++i) {
    CAPTURE(i);
    REQUIRE(together[i].row.id == alone[i].row.id);
    REQUIRE(together[i].skipped == alone[i].skipped);
    REQUIRE(together[i].prediction.has_value() == alone[i].prediction.has_value());
    if (!alone[i].prediction) continue;
    REQUIRE(together[i].prediction->time == alone[i].prediction->time);
    REQUIRE(together[i].prediction->peak_memory == alone[i].prediction->peak_memory);
    REQUIRE(together[i].prediction->memory_excess == alone[i].prediction->memory_excess);
  }
}

// 4,096 ranks of some 65,000 operators each.
TEST_CASE("a row that is too long rank by rank is skipped, and the others are forecast",
          "[scores]") {
  MeasuredSet set = repeated_runs();
  set.rows = {row_of({{"row_id", "a"},
                      {"num_gpus", "4096"},
                      {"dp", "1024"},
                      {"gbs", "1048576"},
                      {"simulation.jitter", "0.01"}},
                     {}),
              row_of({{"row_id", "b"}, {"simulation.jitter", "0.01"}}, {})};
  const std::vector<RowResult> rows = validate(set).rows;
  REQUIRE(rows[0].skipped.starts_with("the step has "));
  REQUIRE(rows[0].skipped.find("allowed of a row: 100 million") != std::string::npos);
  REQUIRE(rows[1].prediction);
}

}  // namespace
