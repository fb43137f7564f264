// Studies of many layouts: which rows make a group, and where the truly fastest stands in it.
#include "sim/scores/layout_ranking.hpp"

#include "tests/catch.hpp"

namespace {

using namespace sim;
using std::chrono::seconds;

MeasuredRow run_of(const std::string& gpus, const std::string& micro_batch, int measured) {
  RunCells cells;
  cells.text = {{"model", "GPT"}, {"gpu", "A100 80 GB"}, {"num_gpus", gpus},
                {"gbs", "512"},   {"seq_len", "2048"},   {"precision", "bf16"},
                {"tp", "2"},      {"mbs", micro_batch}};
  MeasuredRow row;
  row.cells = cells;
  row.outcome = measured > 0 ? Outcome::ran : Outcome::out_of_memory;
  row.measured = seconds{measured};
  return row;
}

RowResult predicted(const MeasuredRow& row, int time, bool fits = true) {
  RowResult result;
  result.row = row;
  result.prediction = Prediction{.time = seconds{time}, .peak_memory = {}, .fits = fits};
  return result;
}

GroupRank ranked(const std::vector<RowResult>& rows) {
  return rank_of_best({"set", "job", {}}, rows);
}

TEST_CASE("a group is five layouts or more of one job that ran", "[scores]") {
  MeasuredSet set;
  set.name = "s";
  for (const char* micro_batch : {"1", "2", "3", "4", "5"}) {
    set.rows.push_back(run_of("64", micro_batch, 10));
    set.rows.push_back(run_of("32", micro_batch, micro_batch[0] == '5' ? 0 : 10));  // four ran
  }
  set.rows.push_back(run_of("64", "16", 0));
  const std::vector<LayoutGroup> groups = layout_groups(set);
  REQUIRE(groups.size() == 1);
  CHECK(groups[0].job == "GPT, 64 x A100, batch 512 x 2048, bf16");
  CHECK(groups[0].rows == std::vector<std::size_t>{0, 2, 4, 6, 8, 10});
}

TEST_CASE("a layout that was measured again is no other layout", "[scores]") {
  MeasuredSet set;
  for (const char* micro_batch : {"1", "2", "4", "8", "8"})
    set.rows.push_back(run_of("64", micro_batch, 10));
  CHECK(layout_groups(set).empty());
  set.rows.push_back(run_of("64", "16", 10));
  REQUIRE(layout_groups(set).size() == 1);
  CHECK(layout_groups(set)[0].rows.size() == 6);
}

TEST_CASE("the truly fastest has the rank that its forecast has", "[scores]") {
  const auto row = [](int measured) { return run_of("64", "1", measured); };
  const GroupRank rank =
      ranked({predicted(row(10), 30), predicted(row(12), 20), predicted(row(11), 25)});
  CHECK(rank.rank == 3);
  CHECK(rank.in_favourites());
  CHECK_THAT(*rank.first_behind, WithinRel(0.2, 1e-12));
  CHECK_THAT(*rank.favourites_behind, WithinAbs(0.0, 1e-12));
}

// One that ran out of memory stands in the way unless the forecast says so.
TEST_CASE("layouts that do not fit count where the forecast has them fit", "[scores]") {
  const auto row = [](int measured) { return run_of("64", "1", measured); };
  const auto with = [&](bool seen) {
    return ranked({predicted(row(0), 5, !seen), predicted(row(10), 10), predicted(row(20), 20)});
  };
  CHECK(with(true).rank == 1);
  CHECK(with(false).rank == 2);
  CHECK_THAT(*with(false).first_behind, WithinAbs(0.0, 1e-12));
  const GroupRank lost = ranked({predicted(row(10), 10, false), predicted(row(20), 20)});
  CHECK_FALSE(lost.rank);
  CHECK_FALSE(lost.in_favourites());
  CHECK_THAT(*lost.first_behind, WithinRel(1.0, 1e-12));
}

// The margin sets the first apart: it ran out of memory with 1% of room.
TEST_CASE("of those that leave a margin the first is ranked anew", "[scores]") {
  const auto with_room = [](RowResult row, double room) {
    row.prediction->capacity = Bytes{1'000'000};
    row.prediction->peak_memory = Bytes{static_cast<std::int64_t>(1e6 / (1 + room))};
    return row;
  };
  const auto row = [](int measured) { return run_of("64", "1", measured); };
  const std::vector<RowResult> rows{with_room(predicted(row(0), 5), 0.01),
                                    with_room(predicted(row(12), 10), 0.5),
                                    with_room(predicted(row(10), 20), 0.4)};
  const GroupRank all = rank_of_best({"set", "job", {}}, rows);
  CHECK(all.first_fails);
  CHECK(all.rank == 3);
  const GroupRank leaving = rank_of_best({"set", "job", {}}, rows, 0.05);
  CHECK_FALSE(leaving.first_fails);
  CHECK(leaving.rank == 2);
  CHECK_THAT(*leaving.first_behind, WithinRel(0.2, 1e-12));
}

TEST_CASE("falling short of the recorded ranks is said", "[scores]") {
  GroupRank good{.set = "s", .job = "a", .rank = 3, .first_behind = {}, .favourites_behind = {}};
  GroupRank bad = good;
  bad.rank = 4;
  ErrorBound bound{.set = "s"};
  bound.layout_groups = 2;
  bound.best_in_favourites = 2;
  CHECK(short_of(std::vector{good, good}, bound).empty());
  CHECK(short_of(std::vector{good, bad}, bound) ==
        std::vector<std::string>{
            "s: the fastest is in our first 3 for 1 groups, at least 2 expected"});
  CHECK(short_of(std::vector{good}, bound).size() == 2);
}

}  // namespace
