#include <QSignalSpy>
#include <QtTest/QTest>
#include <filesystem>
#include <fstream>

#include "sim/scores/tables.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/ui/some_sets.hpp"
#include "tests/ui/wait.hpp"
#include "ui/validate/validate_pane.hpp"

namespace ui {
namespace {

namespace fs = std::filesystem;

void forecast_all(ValidatePane& pane) {
  QSignalSpy ended{&pane, &ValidatePane::ended};
  pane.start();
  REQUIRE(test::until([&] { return ended.count() > 0; }));
}

sim::SetResult by_library(const test::SomeSets& sets, const std::string& name) {
  return sim::validate(sim::load_measured_set((sets.set(name) / "measured.yaml").string()));
}

std::optional<std::size_t> place_of(const RowTable& table, const QString& id) {
  for (std::size_t place = 0; place < table.size(); ++place)
    if (table.text(place, RowTable::id) == id) return place;
  return std::nullopt;
}

QString percent(double value) {
  return QString{"%1 %"}.arg(100 * value, 0, 'f', 1);
}

}  // namespace

TEST_CASE("The medians of a filtered set are those of stepcast validate") {
  const test::SomeSets sets{{"torchtitan", "torchtitan_h200", "vocabulary_parallel"}};
  Session session;
  ValidatePane pane{session, sets.folder()};
  forecast_all(pane);
  CHECK(pane.table().done() == pane.table().size());
  for (const char* name : {"torchtitan", "torchtitan_h200", "vocabulary_parallel"}) {
    CAPTURE(name);
    auto* box = pane.filters().findChildren<QComboBox*>().front();
    box->setCurrentText(name);
    REQUIRE(box->currentText() == name);
    const sim::SetResult expected = by_library(sets, name);
    CHECK(pane.rows().rowCount() == static_cast<int>(expected.set.rows.size()));
    const sim::SetScore score = pane.rows().score(sim::RowUse::score);
    CHECK(score.scored == expected.score.scored);
    CHECK(score.median_abs_error == expected.score.median_abs_error);
    CHECK(score.p90_abs_error == expected.score.p90_abs_error);
    CHECK(score.worst_abs_error == expected.score.worst_abs_error);
    CHECK(score.rank_correlation == expected.score.rank_correlation);
    CHECK(score.fits_right == expected.score.fits_right);
    CHECK(score.median_memory_error == expected.score.median_memory_error);
    if (expected.score.median_abs_error) {
      CHECK(pane.scores().text(sim::RowUse::score, 1) == percent(*expected.score.median_abs_error));
      CHECK(pane.scores().text(sim::RowUse::score, 2) == percent(*expected.score.p90_abs_error));
    }
  }
}

TEST_CASE("Each forecast row is that of stepcast validate, and drawn if it has a time") {
  const test::SomeSets sets{{"torchtitan_h200", "korthikanti_tab4_layer"}};
  Session session;
  ValidatePane pane{session, sets.folder()};
  forecast_all(pane);
  std::size_t drawn = 0;
  for (const char* name : {"torchtitan_h200", "korthikanti_tab4_layer"}) {
    for (const sim::RowResult& row : by_library(sets, name).rows) {
      const auto place = place_of(pane.table(), QString::fromStdString(row.row.id));
      REQUIRE(place);
      const RowResultPtr& shown = pane.table().result(*place);
      REQUIRE(shown->prediction.has_value() == row.prediction.has_value());
      if (!row.prediction) continue;
      CHECK(shown->prediction->time == row.prediction->time);
      if (row.row.has_time()) ++drawn;
    }
  }
  CHECK(pane.scatter().point_count() == drawn);
}

TEST_CASE("Rows that cannot be read or simulated are listed with the reason") {
  const test::SomeSets sets{{"torchtitan_h200"}};
  // One more row, on a GPU that there is not.
  const fs::path file = sets.set("torchtitan_h200") / "rows.csv";
  std::ifstream in{file};
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);)
    lines.push_back(line);
  in.close();
  std::string broken = lines.back();
  broken.replace(0, broken.find(','), "torchtitan_h200-lost");
  const std::size_t gpu = broken.find("H200");
  REQUIRE(gpu != std::string::npos);
  broken.replace(gpu, 4, "TPUv4");
  std::ofstream{file, std::ios::app} << broken << '\n';

  Session session;
  ValidatePane pane{session, sets.folder()};
  forecast_all(pane);
  const auto place = place_of(pane.table(), "torchtitan_h200-lost");
  REQUIRE(place);
  CHECK(state_of(pane.table().result(*place)) == RowState::skipped);
  CHECK(pane.table().text(*place, RowTable::note).startsWith("skipped: "));
  CHECK(pane.table().text(*place, RowTable::note).size() > 15);
  auto* state = pane.filters().findChildren<QComboBox*>().back();
  state->setCurrentIndex(state->count() - 1);
  REQUIRE(pane.rows().rowCount() == 1);
  CHECK(pane.rows().index(0, RowTable::id).data().toString() == "torchtitan_h200-lost");
  // It is no scenario.
  pane.select(*place);
  pane.open_selected();
  CHECK(session.path().empty());
}

TEST_CASE("A row opens as a scenario whose forecast is the row's, with the measured time beside") {
  const test::SomeSets sets{{"torchtitan_h200", "sc21_table1"}};
  Session session;
  ValidatePane pane{session, sets.folder()};
  forecast_all(pane);
  for (const QString id : {"sc21_table1-0001"}) {
    const auto place = place_of(pane.table(), id);
    REQUIRE(place);
    QSignalSpy opened{&pane, &ValidatePane::opened};
    pane.select(*place);
    pane.open_selected();
    REQUIRE(opened.count() == 1);
    REQUIRE(test::until([&] { return !session.computing(); }));
    REQUIRE(session.problems().empty());
    const RowResultPtr& row = pane.table().result(*place);
    CHECK(session.result()->forecast.report.step_time == row->prediction->time);
    REQUIRE(session.measured());
    CHECK(session.measured()->seconds == sim::to_seconds(row->row.measured));
    session.open_text("other.yaml", session.yaml());
    CHECK_FALSE(session.measured());
    REQUIRE(test::until([&] { return !session.computing(); }));
  }
}

TEST_CASE("Rows stop, keep what they have, and go on") {
  const test::SomeSets sets{{"torchtitan", "dgxc_grok1"}};
  Session session;
  ValidatePane pane{session, sets.folder()};
  QSignalSpy ended{&pane, &ValidatePane::ended};
  pane.start();
  REQUIRE(test::until([&] { return pane.table().done() > 0; }));
  pane.stop();
  REQUIRE(test::until([&] { return ended.count() > 0; }));
  const std::size_t done = pane.table().done();
  CHECK(pane.table().waiting().size() == pane.table().size() - done);
  pane.start();
  REQUIRE(test::until([&] { return ended.count() > 1; }));
  CHECK(pane.table().done() == pane.table().size());
}

TEST_CASE("The CSV of the rows has the numbers of the table, unrounded") {
  const test::SomeSets sets{{"torchtitan_h200"}};
  Session session;
  ValidatePane pane{session, sets.folder()};
  forecast_all(pane);
  const QStringList lines = pane.csv().split('\n', Qt::SkipEmptyParts);
  REQUIRE(lines.size() == 1 + static_cast<int>(pane.table().size()));
  CHECK(lines.front() == "row_id,measured_s,forecast_s,error,gpu,gpus,framework,use,set,note");
  const sim::SetResult expected = by_library(sets, "torchtitan_h200");
  for (qsizetype i = 0; i < std::ssize(expected.rows); ++i) {
    const sim::RowResult& row = expected.rows[static_cast<std::size_t>(i)];
    const QStringList cells = lines[i + 1].split(',');
    CHECK(cells[0].toStdString() == row.row.id);
    CHECK(cells[2].toDouble() == sim::to_seconds(row.prediction->time));
    CHECK(cells[3].toDouble() == row.error());
  }
}

TEST_CASE("A folder without sets says so in the pane") {
  Session session;
  ValidatePane pane{session, "/nowhere"};
  forecast_all(pane);
  CHECK(pane.table().size() == 0);
  const auto labels = pane.findChildren<QLabel*>();
  CHECK(std::any_of(labels.begin(), labels.end(),
                    [](const QLabel* label) { return label->text().contains("/nowhere"); }));
}

}  // namespace ui
