#include <QtTest/QTest>

#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/ui/wait.hpp"
#include "ui/timeline/view.hpp"

namespace ui {
namespace {

struct Shown {
  Session session;
  std::unique_ptr<TimelineView> view;
};

std::unique_ptr<Shown> shown(const std::string& file) {
  auto made = std::make_unique<Shown>();
  made->session.open(QString::fromStdString(sim::test::source_dir() + "/scenarios/" + file));
  REQUIRE(test::until([&] { return !made->session.computing(); }));
  made->view = std::make_unique<TimelineView>(made->session);
  made->view->resize(900, 500);
  made->view->show();
  return made;
}

}  // namespace

TEST_CASE("W and S zoom about the middle, A and D pan, Home shows the whole step") {
  const auto at = shown("llama-3.1-70b-512-h100.yaml");
  const TimeWindow whole = at->view->window();
  QTest::keyClick(at->view.get(), Qt::Key_W);
  const TimeWindow closer = at->view->window();
  CHECK(closer.length() == Approx(0.7 * whole.length()));
  CHECK(closer.from + closer.to == Approx(whole.from + whole.to));
  QTest::keyClick(at->view.get(), Qt::Key_D);
  CHECK(at->view->window().from > closer.from);
  QTest::keyClick(at->view.get(), Qt::Key_Home);
  CHECK(at->view->window().length() == whole.length());
}

TEST_CASE("F shows the selected operator, and again the whole step") {
  const auto at = shown("llama-3.1-70b-512-h100.yaml");
  const double whole = at->view->window().length();
  QTest::keyClick(at->view.get(), Qt::Key_BracketRight);
  REQUIRE(at->session.selection().op);
  QTest::keyClick(at->view.get(), Qt::Key_F);
  CHECK(at->view->window().length() < 0.1 * whole);
  QTest::keyClick(at->view.get(), Qt::Key_F);
  CHECK(at->view->window().length() == whole);
}

TEST_CASE("The critical path can be walked from its begin to its end by key") {
  const auto at = shown("llama-3.1-70b-512-h100.yaml");
  const auto& path = at->session.result()->critical_path;
  std::size_t operators = 0;
  for (const sim::PathStep& step : path)
    operators += step.idle ? 0 : 1;
  std::optional<OperatorAt> last;
  std::size_t walked = 0;
  while (walked <= path.size()) {
    QTest::keyClick(at->view.get(), Qt::Key_BracketRight);
    if (at->session.selection().op == last) break;
    last = at->session.selection().op;
    ++walked;
  }
  CHECK(walked == operators);
  REQUIRE(last);
  CHECK(at->session.result()->forecast.timeline.tracks[last->track].spans[last->op].end ==
        at->session.result()->forecast.timeline.end);
}

TEST_CASE("The critical path of every shipped scenario has no gap") {
  for (const char* name :
       {"gpt2-124m-8-h100.yaml", "mixtral-8x7b-64-h100.yaml", "llama-3.1-70b-512-h100.yaml",
        "llama-3.1-405b-16384-h100.yaml", "llama-3.1-8b-fsdp-8-h100.yaml"}) {
    const sim::Scenario scenario =
        sim::load_scenario(sim::test::source_dir() + "/scenarios/" + name);
    const sim::Forecast step = sim::forecast(scenario);
    sim::TimePoint reached{};
    for (const sim::PathStep& part : sim::critical_path(*step.plan, step.timeline)) {
      REQUIRE(part.begin == reached);
      reached = part.end;
    }
    CHECK(reached == step.timeline.end);
  }
}

TEST_CASE("A search marks what matches, and N goes from match to match") {
  const auto at = shown("gpt2-124m-8-h100.yaml");
  CHECK(at->view->search("attention"));
  QTest::keyClick(at->view.get(), Qt::Key_N);
  const auto first = at->session.selection().op;
  REQUIRE(first);
  QTest::keyClick(at->view.get(), Qt::Key_N);
  CHECK(at->session.selection().op != first);
  CHECK_FALSE(at->view->search("("));
}

TEST_CASE("A drag selects an area, Escape takes it away") {
  const auto at = shown("gpt2-124m-8-h100.yaml");
  QTest::mousePress(at->view.get(), Qt::LeftButton, {}, {300, 200});
  QTest::mouseMove(at->view.get(), {500, 220});
  QTest::mouseRelease(at->view.get(), Qt::LeftButton, {}, {500, 220});
  REQUIRE(at->session.selection().area);
  CHECK(at->session.selection().area->begin < at->session.selection().area->end);
  QTest::keyClick(at->view.get(), Qt::Key_Escape);
  CHECK_FALSE(at->session.selection().area);
}

TEST_CASE("The window of time stays while results change, unless it is the whole step") {
  const auto at = shown("gpt2-124m-8-h100.yaml");
  at->view->zoom(0.5);
  const TimeWindow before = at->view->window();
  at->session.set_knobs({{"cluster.change.node.nics.bandwidth", "x0.5"}}, "nic");
  REQUIRE(test::until([&] { return !at->session.computing(); }));
  CHECK(at->view->window().from == before.from);
  CHECK(at->view->window().to == before.to);
}

TEST_CASE("A filter shows the lanes whose name matches; what leaves none says so") {
  const auto at = shown("llama-3.1-70b-512-h100.yaml");
  const std::size_t all = at->view->rows().size();
  const std::size_t stages = at->session.result()->lanes.groups.size();
  REQUIRE(all == 2 * stages);
  CHECK(at->view->filter_lanes("stage [01] "));
  CHECK(at->view->rows().size() == 4);
  CHECK(at->view->filter_lanes("tensor"));
  REQUIRE(at->view->rows().size() == stages);
  for (const Row& row : at->view->rows()) {
    CHECK(row.head);
    REQUIRE(row.strips.size() == 1);
    CHECK(row.strips.front()->stream == sim::Stream::tensor_comm);
    CHECK(row.label.startsWith("stage"));
  }
  CHECK(at->view->filter_lanes("nothing of it"));
  CHECK(at->view->rows().empty());
  at->view->repaint();
  CHECK_FALSE(at->view->filter_lanes("("));  // no expression: all are shown
  CHECK(at->view->rows().size() == all);
}

TEST_CASE("Pinned lanes stay on top while the others scroll below them") {
  const auto at = shown("llama-3.1-405b-16384-h100.yaml");
  at->view->resize(900, 200);           // too low for sixteen stages
  at->view->show_critical_path(false);  // it comes from the lanes that scroll
  at->view->toggle_pin(9);
  const std::vector<Row>& rows = at->view->rows();
  REQUIRE(rows.front().group->stage == 9);
  CHECK(rows.front().pinned);
  CHECK_FALSE(rows.back().pinned);
  CHECK(pinned_height(rows) > rows.front().height);
  const QImage before = at->view->grab().toImage();
  QTest::keyClick(at->view.get(), Qt::Key_Down);
  QTest::keyClick(at->view.get(), Qt::Key_Down);
  const QImage after = at->view->grab().toImage();
  const int top = 26 + 22;  // overview and axis
  const QRect pinned{132, top, 760, pinned_height(rows) - 2};
  CHECK(before.copy(pinned) == after.copy(pinned));
  CHECK(before.copy(132, top + pinned_height(rows), 760, 60) !=
        after.copy(132, top + pinned_height(rows), 760, 60));
  // A click there meets the pinned stage, whatever has scrolled below it.
  QTest::mouseClick(at->view.get(), Qt::LeftButton, {}, {400, top + rows.front().y + 4});
  CHECK(at->session.selection().stage == 9);
  at->view->toggle_pin(9);
  CHECK(pinned_height(at->view->rows()) == 0);
}

}  // namespace ui
