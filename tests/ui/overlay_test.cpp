// A forecast over a run: the record of the real engine, made by the program, over its own forecast.
#include <QFile>
#include <QProcess>
#include <QSignalSpy>
#include <QTableView>
#include <QTemporaryDir>
#include <QtTest/QTest>

#include "sim/forecast/record.hpp"
#include "sim/timeline/perfetto.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/ui/wait.hpp"
#include "ui/validate/overlay_pane.hpp"

namespace ui {
namespace {

QString scenario() {
  return QString::fromStdString(sim::test::source_dir() + "/scenarios/real/gpt2-byte-pp2-dp2.yaml");
}

QString simulated(const QTemporaryDir& folder, const QString& name, const std::string& set = {}) {
  const sim::Scenario loaded = sim::load_scenario(
      scenario().toStdString(), set.empty() ? std::vector<std::string>{} : std::vector{set});
  QString path = folder.filePath(name);
  sim::write_record(path.toStdString(), sim::simulated_record(loaded, true));
  return path;
}

std::unique_ptr<OverlayPane> compared(Session& session, const QString& run,
                                      const QString& forecast = {}) {
  auto pane = std::make_unique<OverlayPane>(session);
  pane->resize(1000, 600);
  if (!forecast.isEmpty()) pane->open_forecast(forecast);
  pane->open_run({run});
  REQUIRE(test::until([&] { return !pane->busy(); }));
  return pane;
}

}  // namespace

TEST_CASE("A run of the real engine over the forecast of its plan is matched in full") {
  const QTemporaryDir folder;
  const QString record = folder.filePath("run.json");
  QProcess program;
  program.setWorkingDirectory(QString::fromStdString(sim::test::source_dir()));
  program.start(STEPCAST_PROGRAM, {"run", scenario(), "--steps", "2", "--record", record});
  REQUIRE(program.waitForFinished(300'000));
  INFO(program.readAllStandardError().toStdString());
  REQUIRE(program.exitCode() == 0);

  Session session;
  session.open(scenario());
  REQUIRE(test::until([&] { return !session.computing(); }));
  const auto pane = compared(session, record);
  REQUIRE(pane->problem().toStdString().empty());
  REQUIRE(pane->overlay());
  const Overlay& overlay = *pane->overlay();
  CHECK(overlay.comparison.sameness.first_difference.empty());
  CHECK(overlay.comparison.sameness.same);
  CHECK(overlay.match.share() == 1.0);
  CHECK(overlay.shown == 4);
  // Every operator goes across and back.
  for (std::size_t pair = 0; pair < overlay.shown; ++pair)
    for (std::uint32_t op = 0; op < overlay.program({pair, 1, 0}).size(); ++op) {
      const std::optional<OverlayAt> other = overlay.other({pair, 1, op});
      REQUIRE(other);
      CHECK(overlay.other(*other) == OverlayAt{pair, 1, op});
    }
  // The table has each operator of both sides.
  double total = 0, spans = 0;
  for (int row = 0; row < pane->operators().rowCount(); ++row)
    total += pane->operators().row(row).total.b;
  for (const sim::RecordedTrack& track : overlay.run->tracks)
    for (const sim::Span& span : track.spans)
      spans += sim::to_seconds(span.end - span.active);
  CHECK_THAT(total * 4, WithinRel(spans, 1e-9));
}

TEST_CASE("Runs of other work are matched in part, and the difference is named") {
  const QTemporaryDir folder;
  Session session;
  const auto pane = compared(session, simulated(folder, "b.json", "layout.micro_batch=4"),
                             simulated(folder, "a"));
  REQUIRE(pane->overlay());
  CHECK_FALSE(pane->overlay()->comparison.sameness.same);
  // Four micro-batches per rank in A, two in B: A has all of B's operators.
  CHECK(pane->overlay()->match.share() == 1.0);
  const auto reversed = compared(session, folder.filePath("a"), folder.filePath("b.json"));
  REQUIRE(reversed->overlay());
  CHECK(reversed->overlay()->match.share() < 0.8);
  CHECK(reversed->overlay()->match.share() > 0.3);
}

TEST_CASE("A click selects the operator on both sides, and its row; a row selects the operator") {
  const QTemporaryDir folder;
  Session session;
  const auto pane = compared(session, simulated(folder, "b.json"), simulated(folder, "a.json"));
  OverlayView& view = pane->timelines();
  pane->show();
  view.step(true);
  REQUIRE(view.selected());
  CHECK(view.selected()->side == 0);
  auto* table = pane->findChild<QTableView*>();
  REQUIRE(table->currentIndex().isValid());
  const sim::Program& program = pane->overlay()->program(*view.selected());
  CHECK(table->currentIndex().siblingAtColumn(0).data().toString().toStdString() ==
        program.name(sim::OpId{view.selected()->op}));
  QTest::keyClick(&view, Qt::Key_X);
  REQUIRE(view.selected());
  CHECK(view.selected()->side == 1);
  CHECK(view.text_of(*view.selected()).contains("measured"));

  const int row = table->currentIndex().row() == 0 ? 1 : 0;
  table->setCurrentIndex(table->model()->index(row, 0));
  REQUIRE(view.selected());
  CHECK(pane->overlay()->program(*view.selected()).name(sim::OpId{view.selected()->op}) ==
        table->model()->index(row, 0).data().toString().toStdString());
}

TEST_CASE("Aligned at an operator, both of it begin at once; equal length has both end together") {
  const QTemporaryDir folder;
  Session session;
  const auto pane =
      compared(session, simulated(folder, "b.json", "cluster.device.memory_bandwidth=x0.5"),
               simulated(folder, "a.json"));
  REQUIRE(pane->overlay());
  OverlayView& view = pane->timelines();
  const Overlay& overlay = *pane->overlay();
  const auto ps = [](sim::TimePoint time) {
    return static_cast<double>(time.time_since_epoch().count());
  };
  for (int i = 0; i < 40; ++i)
    view.step(true);
  REQUIRE(view.selected());
  const std::optional<OverlayAt> run = overlay.other(*view.selected());
  REQUIRE(run);
  view.align_selected();
  CHECK_THAT(view.map().shown(ps(overlay.span(*run).active)),
             WithinAbs(ps(overlay.span(*view.selected()).active), 1));
  view.stretch(true);
  CHECK_THAT(view.map().shown(ps(overlay.run->end)), WithinRel(ps(overlay.forecast->end), 1e-12));
  view.stretch(false);
  CHECK(view.map().scale == 1);
}

TEST_CASE("What is no record says why, and the window goes on") {
  Session session;
  OverlayPane pane{session};
  pane.open_run({QString::fromStdString(sim::test::source_dir() + "/README.md")});
  REQUIRE(test::until([&] { return !pane.busy(); }));
  CHECK(pane.problem().contains("README.md"));
  CHECK_FALSE(pane.overlay());
}

TEST_CASE("An execution trace of PyTorch is told from the profiler's") {
  const QTemporaryDir folder;
  const QString path = folder.filePath("et.json");
  QFile file{path};
  REQUIRE(file.open(QIODevice::WriteOnly));
  file.write(R"({"schema": "1.1.1-chakra.0.0.4", "pid": 458, "nodes": []})");
  file.close();
  Session session;
  OverlayPane pane{session};
  pane.open_run({path});
  REQUIRE(test::until([&] { return !pane.busy(); }));
  CHECK(pane.problem().contains("execution trace"));
}

TEST_CASE("A trace that Stepcast wrote is matched in full with the forecast it is of") {
  const QTemporaryDir folder;
  Session session;
  session.open(scenario());
  REQUIRE(test::until([&] { return !session.computing(); }));
  const sim::Forecast& forecast = session.result()->forecast;
  const QString path = folder.filePath("step.json");
  sim::write_perfetto_file(path.toStdString(), *forecast.plan, forecast.timeline,
                           {.title = "step", .gpus_per_node = 4, .ranks = {}});
  const auto pane = compared(session, path);
  REQUIRE(pane->problem().toStdString().empty());
  REQUIRE(pane->overlay());
  CHECK(pane->overlay()->traced);
  CHECK(pane->overlay()->match.share() == 1.0);
  CHECK(pane->overlay()->comparison.step.a == pane->overlay()->comparison.step.b);
}

}  // namespace ui
