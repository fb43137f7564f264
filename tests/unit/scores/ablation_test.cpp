// Each mechanism can be switched off, and what it does then; other simulators on the same rows.
#include "sim/scores/ablation.hpp"

#include "sim/scores/other_simulators.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"

namespace {

using namespace sim;

const std::string folder = sim::test::source_dir() + "/validation";

MeasuredSet set_of(const std::string& name) {
  return load_measured_set(folder + "/published/" + name + "/measured.yaml");
}

double seconds(const MeasuredSet& set, std::size_t row, Mechanism without) {
  return to_seconds(predict(set, set.rows.at(row), {.without = without}).prediction->time);
}

RowResult timed(const std::string& id, double predicted, double measured, const std::string& tp) {
  RowResult row;
  row.row.id = id;
  row.row.measured = duration_from_seconds(measured);
  row.row.use = RowUse::fit;
  row.row.cells = RunCells{};
  row.row.cells->text = {{"model", "m"}, {"tp", tp}};
  row.prediction = Prediction{.time = duration_from_seconds(predicted), .fits = true};
  return row;
}

// Every one of them only ever costs time in this row: a layer of Megatron-LM on eight GPUs of a
// node, in whose step nothing shares a link.
TEST_CASE("without a mechanism a step is never slower, and some do nothing here", "[scores]") {
  const MeasuredSet set = set_of("korthikanti_tab5");
  const double whole = seconds(set, 0, Mechanism::none);
  for (const Mechanism mechanism :
       {Mechanism::link_contention, Mechanism::waves, Mechanism::host_issue,
        Mechanism::device_spread, Mechanism::interference, Mechanism::framework}) {
    CAPTURE(word(mechanism));
    CHECK(seconds(set, 0, mechanism) <= whole);
  }
  CHECK(seconds(set, 0, Mechanism::waves) < whole);
  CHECK(seconds(set, 0, Mechanism::device_spread) < whole);
  CHECK(seconds(set, 0, Mechanism::measured) != whole);
  // Without the form of the framework its loss is fused.
  CHECK(seconds(set, 0, Mechanism::framework) < whole);
}

TEST_CASE("an ablation has a column per mechanism and a row per scored set", "[scores]") {
  std::vector<MeasuredSet> sets{set_of("korthikanti_tab5"), set_of("korthikanti_tab4_layer")};
  sets[0].rows.resize(2);
  const Ablation ablation = ablate(sets);
  REQUIRE(ablation.sets == std::vector<std::string>{"korthikanti_tab5"});  // the other is to fit
  REQUIRE(ablation.columns.size() == words_of(Mechanism{}).size());
  REQUIRE(ablation.columns[0].without == Mechanism::none);
  const SetScore& score = ablation.columns[0].sets[0];
  CHECK(score.scored == 2);
  CHECK(score.median_abs_error == ablation.columns[0].together.median_abs_error);
  CHECK(ablation_csv(ablation).find("korthikanti_tab5,waves,2,") != std::string::npos);
  CHECK(ablation_markdown(ablation).find("| nothing | ") != std::string::npos);
  CHECK(ablation_table(ablation).find("without host_issue") != std::string::npos);
  CHECK(ablation_json(ablation).find("\"without\": \"nothing\"") != std::string::npos);
}

// Errors 10%, 20% and 50%; the layout forecast as the fastest, b, took 1.2 s where a took 1 s.
TEST_CASE("beside a peer only its rows count, whatever their use", "[scores]") {
  SetResult result;
  result.set.name = "s";
  result.rows = {timed("a", 1.1, 1.0, "2"), timed("b", 0.96, 1.2, "4"), timed("c", 3, 2, "16")};
  const auto own = [&](const PeerFigures& peer) {
    return score_beside(peer, std::span{&result, 1});
  };
  const OwnScore all = own({.name = "p", .source = "q", .set = "s", .rows = "all"});
  CHECK(all.rows == 3);
  CHECK_THAT(*all.average_abs_error, WithinRel(0.8 / 3, 1e-9));
  CHECK_THAT(*all.worst_abs_error, WithinRel(0.5, 1e-9));
  CHECK_FALSE(all.favourite_loss);
  const OwnScore layouts = own({.name = "p", .source = "q", .set = "s", .rows = "", .model = "m"});
  CHECK_THAT(*layouts.favourite_loss, WithinRel(0.2, 1e-9));
  CHECK_THAT(*layouts.rank_correlation, WithinRel(0.5, 1e-9));
  CHECK(own({.name = "p", .source = "q", .set = "s", .rows = "", .most_tensor_parallel = 8}).rows ==
        2);
  CHECK(own({.name = "p", .source = "q", .set = "s", .rows = "", .except = {"b"}}).rows == 2);
  result.rows[1].row.memory = Bytes{100};
  result.rows[1].prediction->plan_memory = Bytes{125};
  const OwnScore memory =
      own({.name = "p", .source = "q", .set = "s", .rows = "", .of_memory = true});
  CHECK(memory.rows == 1);
  CHECK_THAT(*memory.worst_abs_error, WithinRel(0.25, 1e-9));
  CHECK_FALSE(memory.rank_correlation);
  const OwnScore none = own({.name = "p", .source = "q", .set = "other", .rows = "all"});
  CHECK(none.rows == 0);
  CHECK_FALSE(none.average_abs_error);
}

TEST_CASE("the figures of the peers are about sets that are here", "[scores]") {
  const std::vector<PeerFigures> peers = load_peers(folder + "/peers.yaml");
  const std::vector<std::string> sets = measured_sets(folder + "/published");
  REQUIRE(peers.size() == 10);
  for (const PeerFigures& peer : peers) {
    CHECK((peer.set.empty() || std::find(sets.begin(), sets.end(), peer.set) != sets.end()));
    CHECK((peer.average_abs_error || peer.rank_correlation));
  }
}

}  // namespace
