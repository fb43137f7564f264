#include <QtTest/QTest>

#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/ui/wait.hpp"
#include "ui/topology/view.hpp"

namespace ui {
namespace {

void open(Session& session, const std::string& file) {
  session.open(QString::fromStdString(sim::test::source_dir() + "/scenarios/" + file));
  REQUIRE(test::until([&] { return !session.computing(); }));
  REQUIRE(session.problems().empty());
}

}  // namespace

TEST_CASE("The tiers of a topology add up to what the forecast's links carry") {
  Session session;
  open(session, "llama-3.1-70b-512-h100.yaml");
  const ClusterLoads loads{session.result()};
  sim::Bytes sum{}, expected{};
  std::size_t links = 0, loaded = 0, expected_loaded = 0;
  for (std::size_t tier = 0; tier < loads.tiers().size(); ++tier) {
    const TierLoad& load = loads.tiers()[tier];
    sum += load.carried;
    links += load.use.size();
    loaded += load.loaded;
    CHECK(load.mean <= load.most * (1 + 1e-12));
    CHECK_THAT(static_cast<double>(load.use[load.busiest()]), WithinRel(load.most, 1e-6));
  }
  double most = 0, expected_most = 0;
  const sim::Report& report = session.result()->forecast.report;
  for (const TierLoad& load : loads.tiers())
    most = std::max(most, load.most);
  for (const sim::LinkLoad& load : session.result()->forecast.timeline.links) {
    expected += load.carried * static_cast<std::int64_t>(load.represents);
    expected_loaded += load.represents;
    expected_most = std::max(
        expected_most,
        static_cast<double>(load.carried.count()) /
            (session.result()->scenario.cluster.link(load.link).capacity.in_bytes_per_second() *
             sim::to_seconds(report.step_time)));
  }
  CHECK(sum == expected);
  CHECK(loaded == expected_loaded);
  CHECK(links == session.result()->scenario.cluster.link_count());
  CHECK_THAT(most, WithinRel(expected_most, 1e-9));
}

TEST_CASE("A column shows the busiest of its links, and few links fill all columns") {
  const std::vector<float> use{0.1F, 0.9F, 0.2F, 0.3F};
  CHECK(most_per_column(use, 2) == std::vector<float>{0.9F, 0.3F});
  CHECK(most_per_column(use, 8) ==
        std::vector<float>{0.1F, 0.1F, 0.9F, 0.9F, 0.2F, 0.2F, 0.3F, 0.3F});
  CHECK(most_per_column({}, 2) == std::vector<float>{-1, -1});
}

TEST_CASE("Keys walk the tiers and their links; the facts name the groups of a link") {
  Session session;
  TopologyView view{session};
  view.resize(1000, 400);
  view.show();
  open(session, "mixtral-8x7b-64-h100.yaml");
  REQUIRE(test::until([&] { return view.loads() && !view.busy(); }));
  REQUIRE(view.chart().selected());  // the busiest link of all
  view.chart().select(std::nullopt);
  QTest::keyClick(&view.chart(), Qt::Key_Down);
  REQUIRE(view.chart().selected());
  const std::size_t first = view.chart().selected()->tier;
  QTest::keyClick(&view.chart(), Qt::Key_Down);
  CHECK(view.chart().selected()->tier > first);
  const auto facts = view.loads()->facts(*view.chart().selected());
  const auto has = [&](const std::string& name) {
    return std::any_of(facts.begin(), facts.end(),
                       [&](const auto& fact) { return fact.first == name; });
  };
  CHECK(has("link"));
  CHECK(has("busy"));
  CHECK(has("carried"));
  CHECK(facts.size() > 8);  // somebody uses it
  const QStringList lines = view.csv().split('\n', Qt::SkipEmptyParts);
  CHECK(lines.size() == 1 + static_cast<int>(view.loads()->tiers().size()));
  QTest::keyClick(&view.chart(), Qt::Key_Escape);
  CHECK_FALSE(view.chart().selected());
}

TEST_CASE("The scale of use runs from the ground's side to its opposite in both themes") {
  for (const Theme* theme : {&light_theme(), &dark_theme()}) {
    CHECK(contrast(use_colour(*theme, 1), theme->ground) >
          contrast(use_colour(*theme, 0.5), theme->ground));
    CHECK(contrast(use_colour(*theme, 0.5), theme->ground) >
          contrast(use_colour(*theme, 0), theme->ground));
  }
}

TEST_CASE("Every shipped cluster is boxes that do not touch, and a click finds each link") {
  for (const char* name : {"gpt2-124m-8-h100.yaml", "llama-3.1-70b-512-h100.yaml",
                           "vit-l16-64-a100.yaml", "resnet50-16-v100.yaml"}) {
    CAPTURE(name);
    Session session;
    open(session, name);
    const auto loads = std::make_shared<const ClusterLoads>(session.result());
    FabricDiagram diagram;
    diagram.show_loads(loads, 1);
    diagram.resize(diagram.minimumSizeHint());
    const std::vector<PartPlace> places = places_of(loads->graph());
    for (std::size_t a = 0; a < places.size(); ++a)
      for (std::size_t b = 0; b < a; ++b)
        CHECK_FALSE((places[a].column == places[b].column && places[a].row == places[b].row));
    for (std::size_t tier = 0; tier < loads->tiers().size(); ++tier) {
      CAPTURE(loads->tiers()[tier].title);
      const std::optional<std::size_t> found = diagram.tier_at(diagram.line_of(tier).center());
      REQUIRE(found);
      // Links of two kinds between the same parts lie on each other.
      CHECK(loads->graph().links[*found].from == loads->graph().links[tier].from);
      CHECK(loads->graph().links[*found].to == loads->graph().links[tier].to);
    }
  }
}

}  // namespace ui
