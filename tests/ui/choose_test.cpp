#include <QAccessible>
#include <QComboBox>
#include <QFile>
#include <QLineEdit>
#include <QPushButton>
#include <QTemporaryDir>
#include <QtTest/QSignalSpy>
#include <QtTest/QTest>
#include <algorithm>
#include <set>

#include "sim/interop/handover.hpp"
#include "sim/uncertainty/time_error.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/ui/wait.hpp"
#include "ui/choose/choose_pane.hpp"
#include "ui/choose/export_dialog.hpp"
#include "ui/choose/open_layout.hpp"
#include "ui/core/csv.hpp"
#include "ui/window/main_window.hpp"

namespace ui {
namespace {

const char* const gpt2 = "gpt2-124m-8-h100.yaml";

std::string scenario(const std::string& name) {
  return sim::test::source_dir() + "/scenarios/" + name;
}

SearchAsked asked_of(const std::string& name, std::vector<std::string> overrides = {}) {
  QFile file{QString::fromStdString(scenario(name))};
  REQUIRE(file.open(QIODevice::ReadOnly));
  return {0, scenario(name), file.readAll().toStdString(), std::move(overrides), {}, 0};
}

std::string text_of(const sim::SearchResult& result) {
  return sim::search_json(result);
}

// printed() is what `stepcast search -o json` prints.
std::string printed(const std::string& name, const std::vector<std::string>& overrides) {
  sim::Search search{sim::load_search(sim::ScenarioSources{scenario(name), overrides})};
  REQUIRE(sim::run_search(search));
  return text_of(sim::make_result(search, true));
}

// The job's outline with the parts that layouts have when they are clicked.
std::string completed(const SearchJob& job) {
  sim::SearchResult result = *job.result();
  const sim::SearchResult whole = sim::make_result(job.searched()->search, result.complete);
  for (auto* list : {&result.best, &result.within_margin}) {
    for (sim::RankedLayout& one : *list) {
      const sim::RankedLayout clicked = *facts_of(job.searched(), one.evaluation)->ranked;
      one.breakdown = clicked.breakdown;
      one.interval = clicked.interval;
      one.traits = clicked.traits;
    }
    sim::weigh_errors(sim::time_errors_of(nullptr), *list);
  }
  result.comparison = whole.comparison;
  return text_of(result);
}

struct Opened {
  MainWindow window;
  ChoosePane& pane = window.choose();

  explicit Opened(const std::string& name) {
    window.session().open(QString::fromStdString(scenario(name)));
    window.show_job(Job::choose);
    window.show();
    REQUIRE(test::until([&] { return !window.session().computing(); }));
  }
  void search() {
    pane.start();
    REQUIRE(test::until([&] { return pane.settled(); }));
  }
};

}  // namespace

TEST_CASE("A search of the window gives what the command line prints", "[choose]") {
  const std::vector<std::string> overrides =
      GENERATE(std::vector<std::string>{},
               std::vector<std::string>{"search.gpus=[2, 4, 8]", "search.price_per_gpu_hour=2",
                                        "search.micro_batch=[1, 4]"},
               std::vector<std::string>{"layout.global_batch=64", "search.tensor_parallel=2",
                                        "search.memory_margin=0", "search.top=3"});
  SearchJob job;
  std::vector<SearchPoint> points;
  QObject::connect(&job, &SearchJob::progressed, [&](const SearchNews& news) {
    points.insert(points.end(), news.points.begin(), news.points.end());
  });
  job.start(asked_of(gpt2, overrides));
  REQUIRE(test::until([&] { return job.state() == SearchState::done; }));
  CHECK(completed(job) == printed(gpt2, overrides));
  // Every layout that may be in the result has come, once.
  const sim::SearchCounts& counts = job.result()->counts;
  CHECK(points.size() <= counts.simulated + counts.too_large);
  std::set<std::uint32_t> indices;
  for (const SearchPoint& point : points)
    indices.insert(point.evaluation.index);
  CHECK(indices.size() == points.size());
  for (const sim::RankedLayout& one : job.result()->best)
    CHECK(indices.contains(one.evaluation.index));
}

TEST_CASE("A search that is stopped leaves what it has", "[choose]") {
  SearchJob job;
  std::size_t points = 0;
  QObject::connect(&job, &SearchJob::progressed, [&](const SearchNews& news) {
    points += news.points.size();
    if (points > 0) job.stop();
  });
  job.start(asked_of("llama-3.1-70b-512-h100.yaml", {"search.wave=2"}));
  REQUIRE(test::until([&] { return !job.running(); }));
  REQUIRE(job.state() == SearchState::stopped);
  REQUIRE(job.result());
  CHECK_FALSE(job.result()->complete);
  CHECK(job.result()->counts.open > 0);
}

TEST_CASE("A search is stopped before it has begun, too", "[choose]") {
  SearchJob job;
  job.start(asked_of(gpt2));
  job.stop();
  REQUIRE(test::until([&] { return !job.running(); }));
  CHECK(job.state() == SearchState::stopped);
  job.start(asked_of(gpt2));
  REQUIRE(test::until([&] { return !job.running(); }));
  CHECK(job.state() == SearchState::done);
}

TEST_CASE("The newest search wins", "[choose]") {
  SearchJob job;
  int listed = 0;
  QObject::connect(&job, &SearchJob::listed, [&] { ++listed; });
  job.start(asked_of("llama-3.1-70b-512-h100.yaml"));
  REQUIRE(test::until([&] { return listed == 1; }));
  job.start(asked_of(gpt2, {"search.tensor_parallel=2"}));
  job.start(asked_of(gpt2, {"search.tensor_parallel=4"}));
  REQUIRE(test::until([&] { return !job.running(); }));
  REQUIRE(job.state() == SearchState::done);
  CHECK(listed == 2);  // the one in between was never taken up
  CHECK(text_of(*job.result()).find("\"tensor_parallel\": 2") == std::string::npos);
  CHECK(completed(job) == printed(gpt2, {"search.tensor_parallel=4"}));
}

TEST_CASE("A window is closed while it searches", "[choose]") {
  {
    Opened opened{"llama-3.1-70b-512-h100.yaml"};
    opened.pane.start();
    REQUIRE(test::until([&] { return opened.pane.search().state() == SearchState::running; }));
  }
  {
    SearchJob job;
    job.start(asked_of(gpt2));
  }
  SUCCEED("nothing waits, nothing crashes");
}

TEST_CASE("What is wrong with the space is said as on the command line", "[choose]") {
  SearchJob job;
  std::vector<sim::Problem> problems;
  QObject::connect(&job, &SearchJob::failed,
                   [&](const std::vector<sim::Problem>& found) { problems = found; });
  job.start(asked_of(gpt2, {"search.zero_stage=7", "search.schedule=2f2b"}));
  REQUIRE(test::until([&] { return !job.running(); }));
  CHECK(job.state() == SearchState::idle);
  REQUIRE(problems.size() == 2);
  CHECK(sim::to_text(problems[1]).find("2f2b") != std::string::npos);
}

TEST_CASE("A dimension of the file is opened by emptying its field", "[choose]") {
  SearchAsked asked = asked_of("search/mixtral-8x7b-64-h100.yaml");
  const sim::SearchSpecification as_written = specification_of(asked);
  std::size_t listed = 0;
  for (const SpaceRow& row : space_rows()) {
    listed += row.listed(as_written.space).empty() ? 0 : 1;
    asked.unset.emplace_back(row.key);
  }
  CHECK(listed > 0);
  for (const SpaceRow& row : space_rows())
    if (std::string{row.key} != "gpus") CHECK(row.listed(specification_of(asked).space).empty());
}

TEST_CASE("Every field of the space is a key of the section search", "[choose]") {
  Opened opened{gpt2};
  for (const QString& key : opened.pane.space().keys()) {
    CAPTURE(key.toStdString());
    const SearchAsked asked = asked_of(gpt2, {"search." + key.toStdString() + "=[[1]]"});
    try {
      specification_of(asked);
      FAIL("a list of lists was read");
    } catch (const sim::InputError& error) {
      for (const sim::Problem& problem : error.problems())
        CHECK(problem.what.find("unknown key") == std::string::npos);
    }
  }
  CHECK_THROWS_AS(specification_of(asked_of(gpt2, {"search.tops=[[1]]"})), sim::InputError);
}

TEST_CASE("What the fields of the space say is what is searched", "[choose]") {
  Opened opened{gpt2};
  SpacePane& space = opened.pane.space();
  CHECK(space.overrides().empty());
  space.set("tensor_parallel", "2, 4");
  space.set("schedule", "1f1b");
  space.set("price_per_gpu_hour", "2.5");
  CHECK(space.overrides() == std::vector<std::string>{"search.tensor_parallel=[2, 4]",
                                                      "search.schedule=1f1b",
                                                      "search.price_per_gpu_hour=2.5"});
  opened.search();
  for (const sim::RankedLayout& one : opened.pane.search().result()->best)
    CHECK(one.layout.tensor_parallel > 1);
  CHECK(opened.pane.search().result()->price_per_gpu_hour == 2.5);
}

TEST_CASE("The best layout is chosen, pinned, and opened as the scenario", "[choose]") {
  Opened opened{gpt2};
  ChoosePane& pane = opened.pane;
  opened.search();
  const sim::SearchResult& result = *pane.search().result();
  REQUIRE(pane.chosen());
  CHECK(*pane.chosen() == result.best.front().evaluation);
  CHECK(static_cast<std::size_t>(pane.table().model()->rowCount()) ==
        result.best.size() + result.within_margin.size());
  pane.pin();
  const sim::Evaluation third = result.best[2].evaluation;
  pane.choose(third);
  REQUIRE(test::until([&] { return pane.settled(); }));
  CHECK(pane.layout_pane().facts()->evaluation == third);
  CHECK(pane.layout_pane().facts()->ranked->breakdown.total() == third.step_time);

  const std::string before = opened.window.session().yaml();
  pane.open_as_scenario();
  REQUIRE(test::until([&] { return !opened.window.session().computing(); }));
  const ResultPtr& shown = opened.window.session().result();
  CHECK(shown->forecast.report.step_time == third.step_time);
  CHECK(shown->scenario.layout == result.best[2].layout);
  CHECK(opened.window.session().yaml() == before);
  opened.window.session().undo_stack().undo();
  CHECK(opened.window.session().knobs().empty());
}

TEST_CASE("A layout of a search over a scenario that has changed opens on the old one",
          "[choose]") {
  Opened opened{gpt2};
  opened.search();
  const sim::Evaluation best = *opened.pane.chosen();
  Session& session = opened.window.session();
  session.set_knobs({{"layout.global_batch", "64"}}, "batch");
  REQUIRE(test::until([&] { return !session.computing(); }));
  opened.pane.open_as_scenario();
  REQUIRE(test::until([&] { return !session.computing() && session.problems().empty(); }));
  CHECK(session.result()->forecast.report.step_time == best.step_time);
}

TEST_CASE("What is exported for a framework is what stepcast export writes", "[choose]") {
  Opened opened{gpt2};
  opened.search();
  const LayoutFactsPtr& facts = opened.pane.layout_pane().facts();
  REQUIRE(facts);
  const sim::Scenario made = scenario_of(*facts);
  sim::Search search{sim::load_search(sim::ScenarioSources{scenario(gpt2)})};
  const sim::Scenario taken = sim::take_scenario(std::move(search), facts->evaluation.index);
  for (const sim::Target target : {sim::Target::megatron, sim::Target::scenario}) {
    const sim::Exported expected = sim::export_scenario(taken, target, {});
    const ExportDialog dialog{made, target, nullptr};
    CHECK(dialog.exported().text == expected.text);
    CHECK(dialog.exported().notes.size() == expected.notes.size());
  }
}

TEST_CASE("A search is begun, walked through and pinned with keys alone", "[choose]") {
  Opened opened{gpt2};
  ChoosePane& pane = opened.pane;
  opened.window.activateWindow();
  pane.space().findChild<QLineEdit*>()->setFocus();
  QTest::keyClick(pane.space().findChild<QLineEdit*>(), Qt::Key_Return);
  CHECK(pane.search().running());
  REQUIRE(test::until([&] { return pane.settled(); }));
  const sim::Evaluation first = *pane.chosen();
  QTest::keyClick(&pane.table(), Qt::Key_Down);
  CHECK(*pane.chosen() == pane.search().result()->best[1].evaluation);
  QTest::keyClick(&pane.pareto().scatter(), Qt::Key_Right);
  REQUIRE(pane.pareto().scatter().selected());
  CHECK_FALSE(*pane.chosen() == first);
  REQUIRE(test::until([&] { return pane.settled(); }));
}

TEST_CASE("The table is written as it is shown", "[choose]") {
  Opened opened{gpt2};
  opened.search();
  const QStringList lines = csv_of(opened.pane.table()).split('\n', Qt::SkipEmptyParts);
  CHECK(lines.size() == opened.pane.table().model()->rowCount() + 1);
  CHECK(lines.front().startsWith("#,layout,step time,slower,memory"));
}

TEST_CASE("Every control of the page has a name that a screen reader can say", "[choose]") {
  Opened opened{gpt2};
  opened.search();
  int controls = 0;
  for (QWidget* widget : opened.pane.findChildren<QWidget*>()) {
    const bool control = widget->focusPolicy() != Qt::NoFocus && widget->isVisible() &&
                         !widget->objectName().startsWith("qt_");
    if (!control) continue;
    ++controls;
    QAccessibleInterface* found = QAccessible::queryAccessibleInterface(widget);
    INFO(widget->metaObject()->className()
         << " in " << widget->parentWidget()->metaObject()->className());
    REQUIRE(found);
    CHECK_FALSE(found->text(QAccessible::Name).isEmpty());
  }
  CHECK(controls > 20);
}

TEST_CASE("A search that is stopped before anything was simulated says so", "[choose]") {
  Opened opened{gpt2};
  opened.pane.start();
  opened.pane.stop();
  REQUIRE(test::until([&] { return !opened.pane.search().running(); }));
  CHECK(opened.pane.settled());
  CHECK(opened.pane.table().model()->rowCount() == 0);
  opened.search();
  CHECK(opened.pane.table().model()->rowCount() > 0);
}

TEST_CASE("Where no layout fits the page says what would help", "[choose]") {
  Opened opened{gpt2};
  opened.window.session().set_knobs({{"layout.global_batch", "960"}}, "batch");
  REQUIRE(test::until([&] { return !opened.window.session().computing(); }));
  for (const auto& [key, value] : {std::pair{"data_parallel", "1"},
                                   {"tensor_parallel", "1"},
                                   {"gpus", "1"},
                                   {"pipeline_parallel", "1"},
                                   {"recompute", "none"},
                                   {"micro_batch", "960"}})
    opened.pane.space().set(key, value);
  opened.search();
  REQUIRE(opened.pane.search().state() == SearchState::done);
  CHECK_FALSE(opened.pane.search().result()->nothing_fits.empty());
  CHECK_FALSE(opened.pane.chosen());
  CHECK(opened.pane.search().result()->counts.legal > 0);
}

TEST_CASE("Without a scenario the page says what to do", "[choose]") {
  MainWindow window;
  window.show_job(Job::choose);
  window.show();
  window.choose().start();
  CHECK_FALSE(window.choose().search().running());
  for (const QPushButton* button : window.choose().findChildren<QPushButton*>())
    if (button->text() == "&Start search") CHECK_FALSE(button->isEnabled());
}

}  // namespace ui
