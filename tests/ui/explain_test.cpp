// A run explained in the window: its causes and their operators, the roofline, ranks that wait.
#include <QAccessible>
#include <QLabel>
#include <QPushButton>
#include <QTableView>
#include <QTemporaryDir>
#include <QtTest/QTest>

#include "sim/timeline/perfetto.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/ui/wait.hpp"
#include "ui/core/write_file.hpp"
#include "ui/explain/waterfall_bar.hpp"
#include "ui/validate/overlay_pane.hpp"
#include "ui/window/file_role.hpp"
#include "ui/window/main_window.hpp"

namespace ui {
namespace {

QString shipped_file(const QString& name) {
  return QString::fromStdString(sim::test::source_dir()) + '/' + name;
}

const char* const busy_cores = "validation/explain/busy-cores.json.gz";
const char* const its_scenario = "scenarios/real/llama-byte-tp2-dp2.yaml";

// The shipped example over its scenario, or over another one.
struct Explained {
  explicit Explained(const QString& scenario = its_scenario) : pane{session} {
    session.open(shipped_file(scenario));
    REQUIRE(test::until([&] { return !session.computing(); }));
    pane.resize(1000, 700);
    pane.show();
    pane.open_run({shipped_file(busy_cores)});
    REQUIRE(test::until([&] { return !pane.busy(); }));
    REQUIRE(pane.problem().toStdString().empty());
    REQUIRE(pane.explain().explanation());
  }
  const sim::Explanation& explanation() { return *pane.explain().explanation(); }
  Session session;
  OverlayPane pane;
};

QString told_differences(const OverlayPane& pane) {
  for (const auto* label : pane.findChildren<QLabel*>())
    if (label->accessibleName() == "What shows that this is not the same job")
      return label->isVisibleTo(&pane) ? label->text() : QString{};
  return {};
}

}  // namespace

TEST_CASE("The bars of a waterfall go from the forecast to what was measured, exactly") {
  Explained shown;
  REQUIRE(shown.explanation().waterfall);
  const sim::Waterfall& waterfall = *shown.explanation().waterfall;
  const WaterfallTree& tree = shown.pane.explain().waterfall();
  const int last = tree.topLevelItemCount() - 1;
  REQUIRE(last == static_cast<int>(waterfall.parts.size()) + 1);
  double at = sim::to_seconds(waterfall.forecast);
  for (int row = 1; row < last; ++row) {
    const QTreeWidgetItem& item = *tree.topLevelItem(row);
    CHECK_THAT(item.data(WaterfallTree::bar, bar_from_role).toDouble(), WithinRel(at, 1e-12));
    at = item.data(WaterfallTree::bar, bar_to_role).toDouble();
    const bool less = waterfall.parts[static_cast<std::size_t>(row - 1)].time < sim::Duration{};
    CHECK(item.text(WaterfallTree::time).startsWith(less ? "−" : "+"));
  }
  CHECK_THAT(at, WithinRel(sim::to_seconds(waterfall.measured), 1e-12));
  CHECK(tree.topLevelItem(0)->text(WaterfallTree::cause) == "forecast");
  CHECK(tree.topLevelItem(last)->text(WaterfallTree::cause) == "measured");

  qlonglong picoseconds = 0;
  const QStringList lines = tree.csv().split('\n', Qt::SkipEmptyParts);
  for (const QString& line : lines.mid(1))
    picoseconds += line.section(',', -3, -3).toLongLong();
  CHECK(picoseconds == waterfall.difference().count());
}

TEST_CASE("A small difference is seen on an axis that is cut, a large one on one from zero") {
  CHECK_FALSE(axis_of(0.05, 0.3).cut());
  const BarAxis cut = axis_of(0.95, 1.0);
  CHECK(cut.cut());
  CHECK(cut.begin < 0.95);
  CHECK(cut.end == 1.0);
  CHECK_FALSE(axis_of(1.0, 1.0).cut());
}

TEST_CASE("Keys walk the causes, and each leads to its operators on both timelines") {
  Explained shown;
  ExplainPane& explain = shown.pane.explain();
  OverlayView& view = shown.pane.timelines();
  CHECK_FALSE(view.selected());
  CHECK(explain.sentence().startsWith("1. waiting for slower ranks"));
  const sim::Waterfall& waterfall = *shown.explanation().waterfall;
  WaterfallTree& tree = explain.waterfall();
  for (std::size_t part = 0; part < waterfall.parts.size(); ++part) {
    const bool has_ops =
        std::any_of(waterfall.parts[part].items.begin(), waterfall.parts[part].items.end(),
                    [](const sim::WaterfallItem& item) { return !item.ops.empty(); });
    view.select(std::nullopt);
    tree.select(CauseAt{part});
    INFO(waterfall.parts[part].sentence);
    CHECK(explain.sentence().contains(QString::fromStdString(waterfall.parts[part].sentence)));
    CHECK(view.selected().has_value() == has_ops);
    if (!view.selected()) continue;
    CHECK(shown.pane.overlay()->lanes.groups[2 * view.selected()->pair + 1].rank == waterfall.rank);
  }
  tree.select(std::nullopt);
  QTest::keyClick(&tree, Qt::Key_Down);
  QTest::keyClick(&tree, Qt::Key_Down);  // below the forecast
  REQUIRE(tree.selected() == CauseAt{0});
  REQUIRE(view.selected());
  const OverlayAt first = *view.selected();
  CHECK(shown.pane.overlay()->program(first).kind[first.op] == sim::OpKind::collective);
  // The row of the table follows.
  auto* table = shown.pane.findChild<QTableView*>();
  for (auto* one : shown.pane.findChildren<QTableView*>())
    if (one->accessibleName() == "Forecast and run by operator") table = one;
  REQUIRE(table->currentIndex().isValid());
  CHECK(table->currentIndex().siblingAtColumn(0).data().toString().toStdString() ==
        shown.pane.overlay()->program(first).name(sim::OpId{first.op}));
  shown.pane.walk(true);
  REQUIRE(view.selected());
  CHECK_FALSE(*view.selected() == first);
  CHECK(explain.sentence().contains("operator 2 of "));
  shown.pane.walk(false);
  CHECK(*view.selected() == first);
}

TEST_CASE("An operator of a cause is wide enough to be seen") {
  Explained shown;
  shown.pane.explain().waterfall().select(CauseAt{2});
  const OverlayView& view = shown.pane.timelines();
  REQUIRE(view.selected());
  const sim::Span& span = shown.pane.overlay()->span(*view.selected());
  CHECK(static_cast<double>((span.end - span.begin).count()) > 0.02 * view.window().length());
}

TEST_CASE("Of a trace, too, a cause leads to kernels of the rank that is looked at") {
  const QTemporaryDir folder;
  const QString path = folder.filePath("slow.json");
  Session slow;
  slow.open(shipped_file(its_scenario));
  slow.set_knobs({{"cluster.device.memory_bandwidth", "x0.25"}}, "memory");
  REQUIRE(test::until([&] { return !slow.computing(); }));
  REQUIRE(slow.problems().empty());
  const sim::Forecast& forecast = slow.result()->forecast;
  sim::write_perfetto_file(path.toStdString(), *forecast.plan, forecast.timeline,
                           {.title = "step", .gpus_per_node = 4, .ranks = {}});
  Session session;
  session.open(shipped_file(its_scenario));
  REQUIRE(test::until([&] { return !session.computing(); }));
  OverlayPane pane{session};
  pane.open_run({path});
  REQUIRE(test::until([&] { return !pane.busy(); }));
  REQUIRE(pane.problem().toStdString().empty());
  REQUIRE(pane.overlay());
  CHECK(pane.overlay()->traced);
  const ExplanationPtr& explanation = pane.explain().explanation();
  REQUIRE(explanation->waterfall);
  REQUIRE(explanation->waterfall->difference() > sim::Duration{});
  CHECK(explanation->waterfall->parts.front().kind == sim::TroubleKind::memory_bound);
  pane.explain().waterfall().select(CauseAt{0});
  REQUIRE(pane.timelines().selected());
  const OverlayAt at = *pane.timelines().selected();
  const std::optional<OverlayAt> other = pane.overlay()->other(at);
  REQUIRE(other);
  const auto length = [&](const OverlayAt& of) {
    const sim::Span& span = pane.overlay()->span(of);
    return span.end - span.begin;
  };
  CHECK(length(at.side == 1 ? at : *other) > length(at.side == 0 ? at : *other));
}

TEST_CASE("Kernels of known work are points that keys reach, with name, shape and rate") {
  Explained shown;
  ExplainPane& explain = shown.pane.explain();
  explain.setCurrentIndex(1);
  RooflineChart& chart = explain.roofline();
  CHECK(chart.point_count() > 10);
  CHECK_FALSE(shown.explanation().roofline.device.empty());  // the scenario's
  QTest::keyClick(&chart, Qt::Key_Right);
  const sim::RooflinePoint* point = chart.point();
  REQUIRE(point);
  double least = point->intensity();
  for (const sim::RooflinePoint& other : shown.explanation().roofline.points)
    if (other.flops > 0) least = std::min(least, other.intensity());
  CHECK(point->intensity() == least);
  for (int i = 0; i < 100; ++i)
    QTest::keyClick(&chart, Qt::Key_Right);
  point = chart.point();
  REQUIRE(point);
  CHECK(point->category == "matrix products");
  const QString text = chart.text_of(*point);
  CHECK(text.contains(QString::fromStdString(point->name)));
  CHECK(text.contains(QString::fromStdString(point->shape)));
  CHECK(text.contains("GFLOP/s"));
  CHECK(chart.accessibleDescription() == text);
  const std::optional<OverlayAt> at = shown.pane.timelines().selected();
  REQUIRE(at);
  CHECK(shown.pane.overlay()->program(*at).name(sim::OpId{at->op}) == point->name);
}

TEST_CASE("Ranks that others wait for are listed with what they take longer for") {
  Explained shown;
  const StatesPane& states = shown.pane.explain().states();
  auto* table = states.findChild<QTableWidget*>();
  REQUIRE(table);
  REQUIRE(table->rowCount() == 4);
  CHECK(table->item(0, 0)->text().toUInt() == shown.explanation().late[0].rank.value);
  CHECK(table->item(0, 3)->text().contains(" by "));
  const auto* bars = states.findChild<StackedBars*>();
  REQUIRE(bars);
  CHECK(bars->accessibleDescription().contains("compute"));
  CHECK_FALSE(bars->accessibleDescription().contains("("));
  table->setCurrentCell(0, 0);  // beside the mean
  CHECK(bars->accessibleDescription().contains("("));
}

TEST_CASE("A run of another job says so first") {
  Explained same;
  CHECK(told_differences(same.pane).isEmpty());
  Explained other{"scenarios/real/gpt2-byte-pp2-dp2.yaml"};
  CHECK(told_differences(other.pane).contains("Not the same job"));
  CHECK_FALSE(other.explanation().waterfall->differences.empty());
}

TEST_CASE("A run is explained without a scenario, and against it once there is one") {
  Session session;
  OverlayPane pane{session};
  pane.open_run({shipped_file(busy_cores)});
  REQUIRE(test::until([&] { return !pane.busy(); }));
  REQUIRE(pane.explain().explanation());
  CHECK_FALSE(pane.explain().explanation()->waterfall);
  CHECK_FALSE(pane.overlay());
  CHECK(pane.explain().sentence().contains("Open the scenario"));
  session.open(shipped_file(its_scenario));
  REQUIRE(test::until([&] { return pane.overlay() != nullptr; }));
  CHECK(pane.explain().explanation()->waterfall);
}

TEST_CASE("What is being read can be cancelled") {
  Session session;
  OverlayPane pane{session};
  pane.show();
  pane.open_run({shipped_file(busy_cores)});
  QPushButton* cancel = nullptr;
  for (auto* button : pane.findChildren<QPushButton*>())
    if (button->accessibleName().startsWith("Cancel")) cancel = button;
  REQUIRE(cancel);
  CHECK(cancel->isVisible());
  cancel->click();
  CHECK_FALSE(pane.busy());
  CHECK_FALSE(cancel->isVisible());
  CHECK_FALSE(pane.explain().explanation());
}

TEST_CASE("A scenario and a run that are opened together are held against each other") {
  MainWindow window;
  window.show();
  window.open_files({shipped_file(busy_cores), shipped_file(its_scenario)});
  REQUIRE(test::until([&] { return window.overlay().overlay() != nullptr; }));
  CHECK(window.overlay().isVisible());
  CHECK(window.overlay().explain().explanation()->waterfall->differences.empty());
}

TEST_CASE("A database of nsys is a run, and says in the window what is wrong with it") {
  const QTemporaryDir folder;
  const QString path = folder.filePath("cut.sqlite");
  REQUIRE(write_file(path, QByteArray{"SQLite format 3\0cut", 19}).isEmpty());
  CHECK(role_of(path).role == FileRole::run);
  MainWindow window;
  window.show();
  window.open_files({path});
  REQUIRE(test::until([&] { return !window.overlay().busy(); }));
  CHECK(window.overlay().problem().contains("cut.sqlite"));
  CHECK_FALSE(window.overlay().explain().explanation());
}

}  // namespace ui
