// Views of the window as pictures, light and dark, held against recorded ones.
#include "tests/ui/pictures.hpp"

#include <QApplication>
#include <QPainter>
#include <QTemporaryDir>
#include <QtTest/QTest>

#include "sim/forecast/record.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/ui/some_sets.hpp"
#include "tests/ui/wait.hpp"
#include "ui/choose/choose_pane.hpp"
#include "ui/core/theme.hpp"
#include "ui/plan/plan_pane.hpp"
#include "ui/timeline/view.hpp"
#include "ui/topology/view.hpp"
#include "ui/validate/overlay_pane.hpp"
#include "ui/validate/validate_pane.hpp"
#include "ui/window/main_window.hpp"

namespace ui {
namespace {

constexpr QSize screen{1280, 800};

// The same glyphs at the same places, whatever the machine prefers: advances without hinting.
void fix_fonts() {
  QFont font{"DejaVu Sans", 9};
  font.setHintingPreference(QFont::PreferNoHinting);
  font.setStyleStrategy(QFont::NoSubpixelAntialias);
  QApplication::setFont(font);
}

QString scenario(const QString& name) {
  return QString::fromStdString(sim::test::source_dir()) + "/scenarios/" + name;
}

void open(Session& session, const QString& name) {
  session.open(scenario(name));
  REQUIRE(test::until([&] { return !session.computing(); }));
}

std::unique_ptr<MainWindow> window_of(const QString& name) {
  fix_fonts();
  auto window = std::make_unique<MainWindow>();
  window->resize(screen);
  window->show();
  open(window->session(), name);
  REQUIRE(test::until([&] { return !window->busy(); }));
  return window;
}

void show(QWidget& view, QSize size) {
  view.resize(size);
  view.show();
  QCoreApplication::processEvents();
}

// In both themes.
void check(QWidget& view, const QString& name) {
  for (const bool dark : {false, true}) {
    QApplication::setPalette(palette_of(dark ? dark_theme() : light_theme()));
    QCoreApplication::processEvents();
    const QImage picture = view.grab().toImage();
    CHECK(test::check_picture(picture, name + (dark ? "-dark" : "-light")).toStdString().empty());
  }
  QApplication::setPalette(palette_of(light_theme()));
}

}  // namespace

TEST_CASE("The window of a forecast looks as recorded") {
  const auto window = window_of("llama-3.1-70b-512-h100.yaml");
  window->session().set_knobs({{"cluster.change.node.nics.bandwidth", "x0.5"}}, "nic");
  REQUIRE(test::until([&] { return !window->busy(); }));
  check(*window, "window");
}

TEST_CASE("The timeline, close up, looks as recorded") {
  fix_fonts();
  Session session;
  open(session, "llama-3.1-70b-512-h100.yaml");
  TimelineView view{session};
  show(view, {960, 480});
  view.toggle_pin(2);
  view.toggle_stage(0);
  view.step_path(true);
  view.zoom(0.05, 0);
  check(view, "timeline");
}

TEST_CASE("The topology looks as recorded") {
  fix_fonts();
  Session session;
  open(session, "llama-3.1-70b-512-h100.yaml");
  TopologyView view{session};
  show(view, {960, 320});
  REQUIRE(test::until([&] { return view.loads() != nullptr; }));
  check(view, "topology");
}

TEST_CASE("The layouts of a search look as recorded") {
  const auto window = window_of("gpt2-124m-8-h100.yaml");
  window->show_job(Job::choose);
  window->choose().start();
  REQUIRE(test::until([&] { return window->choose().settled() && !window->busy(); }));
  check(window->choose().pareto(), "pareto");
}

TEST_CASE("A forecast over a run looks as recorded") {
  fix_fonts();
  const QTemporaryDir folder;
  const QString run = folder.filePath("run.json");
  sim::write_record(
      run.toStdString(),
      sim::simulated_record(
          sim::load_scenario(scenario("real/gpt2-byte-pp2-dp2.yaml").toStdString(),
                             std::vector<std::string>{"cluster.device.memory_bandwidth=x0.5"}),
          true));
  Session session;
  open(session, "real/gpt2-byte-pp2-dp2.yaml");
  OverlayPane pane{session};
  show(pane, {960, 640});
  pane.open_run({run});
  REQUIRE(test::until([&] { return !pane.busy(); }));
  QCoreApplication::processEvents();  // lays the wrapped texts out
  check(pane, "overlay");
}

// Its tabs too, and a narrow one: names give way, figures do not.
TEST_CASE("A run that is explained looks as recorded") {
  fix_fonts();
  Session session;
  open(session, "real/llama-byte-tp2-dp2.yaml");
  OverlayPane pane{session};
  show(pane, {960, 720});
  pane.open_run(
      {QString::fromStdString(sim::test::source_dir()) + "/validation/explain/busy-cores.json.gz"});
  REQUIRE(test::until([&] { return !pane.busy(); }));
  pane.explain().waterfall().select(CauseAt{1});
  QCoreApplication::processEvents();
  check(pane, "explain");
  pane.explain().setCurrentIndex(1);
  QCoreApplication::processEvents();
  check(pane.explain().roofline(), "roofline");
  pane.explain().setCurrentIndex(2);
  QCoreApplication::processEvents();
  check(pane.explain().states(), "states");
  WaterfallTree narrow;
  narrow.show_waterfall(pane.explain().explanation());
  show(narrow, {360, 300});
  check(narrow, "waterfall-narrow");
}

// A wide window, and a narrow one.
TEST_CASE("A plan of a cluster looks as recorded") {
  const auto window = window_of("gpt2-124m-8-h100.yaml");
  window->show_job(Job::plan);
  PlanPane& pane = window->plan();
  for (const auto& [field, text] : std::vector<std::pair<QString, QString>>{
           {"tokens", "3e11"},
           {"deadline", "30d"},
           {"most_gpus", "8"},
           {"framework", "megatron"},
           {"clusters", "dgx-h100=2.50 USD,dgx-a100-80=1.10 USD"}})
    REQUIRE(pane.form().set(field, text));
  pane.start();
  REQUIRE(test::until([&] { return !pane.job().running() && !window->busy(); }));
  QCoreApplication::processEvents();
  check(*window, "plan");
  window->resize(900, 700);
  QCoreApplication::processEvents();
  check(pane, "plan-narrow");
}

TEST_CASE("Published rows look as recorded") {
  fix_fonts();
  const test::SomeSets sets{{"torchtitan", "torchtitan_h200"}};
  Session session;
  ValidatePane pane{session, sets.folder()};
  show(pane, screen);
  REQUIRE(test::until([&] { return !pane.running(); }));
  check(pane, "rows");
}

TEST_CASE("A panel that has moved, and a colour that has changed, are seen") {
  fix_fonts();
  Session session;
  open(session, "llama-3.1-70b-512-h100.yaml");
  TimelineView view{session};
  show(view, {960, 480});
  const QImage picture = view.grab().toImage();
  const QImage before = test::coarse(picture);
  CHECK(test::difference(before, before) == 0);

  QImage moved = picture.copy();  // everything below the axis, four pixels down
  QPainter{&moved}.drawImage(QPoint{0, 52}, picture.copy(0, 48, 960, 428));
  CHECK(test::difference(before, test::coarse(moved)) > test::picture_tolerance);

  const QRgb from = light_theme().ink[0].rgb();
  const QRgb to = light_theme().ink[0].lighter(140).rgb();
  QImage coloured = picture.convertToFormat(QImage::Format_RGB32);
  int changed = 0;
  for (int y = 0; y < coloured.height(); ++y)
    for (int x = 0; x < coloured.width(); ++x)
      if (coloured.pixel(x, y) == from) {
        coloured.setPixel(x, y, to);
        ++changed;
      }
  REQUIRE(changed > 0);
  CHECK(test::difference(before, test::coarse(coloured)) > test::picture_tolerance);
}

}  // namespace ui
