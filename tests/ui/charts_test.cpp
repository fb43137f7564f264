#include <QtTest/QSignalSpy>
#include <QtTest/QTest>
#include <cmath>
#include <random>

#include "tests/catch.hpp"
#include "ui/charts/scatter.hpp"

namespace ui {
namespace {

QList<QPointF> cloud(int count, unsigned seed, double length) {
  std::mt19937 random{seed};
  std::uniform_real_distribution<double> place{0, length};
  QList<QPointF> points;
  for (int i = 0; i < count; ++i)
    points.append({1 + std::round(place(random)), 1 + place(random)});
  return points;
}

std::optional<Hit> slow_nearest(const QList<QPointF>& points, const QPointF& at, double within) {
  std::optional<Hit> best;
  for (int i = 0; i < points.size(); ++i) {
    const double distance = std::hypot(points[i].x() - at.x(), points[i].y() - at.y());
    if (distance <= within && (!best || distance < best->distance)) best = Hit{i, distance};
  }
  return best;
}

std::unique_ptr<Scatter> shown(const QList<QPointF>& points, bool logarithmic = false) {
  auto scatter = std::make_unique<Scatter>("test");
  const double least = logarithmic ? 1 : 0;
  scatter->set_axes({"x", least, 1000, logarithmic}, {"y", least, 1000, logarithmic});
  scatter->set_sets({{"points", Marker::disc, Qt::blue, 6, points}});
  scatter->resize(800, 600);
  scatter->show();
  REQUIRE(QTest::qWaitForWindowExposed(scatter.get()));
  scatter->grab();  // lays the chart out
  return scatter;
}

}  // namespace

TEST_CASE("The nearest of many points is that of a search through all of them") {
  const QList<QPointF> points = cloud(3000, 1, 500);
  const Nearest nearest{points};
  const QList<QPointF> places = cloud(2000, 2, 520);
  int found = 0;
  for (const QPointF& place : places) {
    const auto slow = slow_nearest(points, place, 9);
    const auto fast = nearest.at(place, 9);
    REQUIRE(fast.has_value() == slow.has_value());
    if (!slow) continue;
    ++found;
    CHECK(fast->index == slow->index);
    CHECK(fast->distance == slow->distance);
  }
  CHECK(found > 1000);
  CHECK_FALSE(Nearest{}.at({0, 0}, 1e9));
}

TEST_CASE("Of points in one place the first is hit, and one that is no number never") {
  const double nan = std::nan("");
  const Nearest nearest{{{nan, 0}, {5, 5}, {5, 5}, {nan, nan}}};
  REQUIRE(nearest.at({5, 6}, 2));
  CHECK(nearest.at({5, 6}, 2)->index == 1);
}

TEST_CASE("A point of a chart is hit where it is drawn, also after zoom, resize and other axes") {
  QList<QPointF> points = cloud(10'000, 3, 1000);
  const bool logarithmic = GENERATE(false, true);
  const auto scatter = shown(points, logarithmic);
  const auto check = [&] {
    scatter->grab();
    QList<QPointF> places;
    for (const QPointF& point : points)
      places.append(scatter->plot().mapToPosition(point, scatter->plot().series().front()));
    for (const QPointF& place : cloud(200, 4, 600)) {
      const auto slow = slow_nearest(places, place, 9);
      const auto hit = scatter->nearest(place);
      REQUIRE(hit.has_value() == slow.has_value());
      if (slow) CHECK(hit->point == slow->index);
    }
  };
  check();
  scatter->resize(700, 500);
  check();
  scatter->set_axes({"x", 100, 500, logarithmic}, {"y", 10, 900, false});
  check();
  QTest::keyClick(scatter.get(), Qt::Key_W);
  check();
  points = cloud(8000, 5, 900);
  scatter->set_sets({{"points", Marker::disc, Qt::blue, 6, points}});
  check();
}

TEST_CASE("A chart that appears behind its empty text leaves its axes room") {
  Scatter scatter{"test"};
  scatter.resize(800, 300);
  scatter.set_empty_text("nothing yet");
  scatter.show();
  REQUIRE(QTest::qWaitForWindowExposed(&scatter));
  scatter.grab();
  scatter.set_axes({"x", 1, 1000, true}, {"y", 0, 1000});
  scatter.set_sets({{"points", Marker::disc, Qt::blue, 6, cloud(10, 1, 900)}});
  QCoreApplication::processEvents();
  scatter.grab();
  const int label = QFontMetrics{scatter.font()}.height();
  CHECK(scatter.plot().plotArea().left() > label + 10);
  CHECK(scatter.height() - scatter.plot().plotArea().bottom() > 2 * label);
}

TEST_CASE("Arrow keys walk through the points by x and by y, and Enter activates") {
  const auto scatter = shown({{300, 900}, {100, 500}, {200, 100}});
  CHECK(scatter->focusPolicy() == Qt::StrongFocus);  // else no key reaches it
  const QSignalSpy chosen{scatter.get(), &Scatter::chosen};
  const QSignalSpy activated{scatter.get(), &Scatter::activated};
  scatter->set_describe([](const ScatterAt& at) { return QString{"point %1"}.arg(at.point); });
  const auto press = [&](Qt::Key key) {
    QTest::keyClick(scatter.get(), key);
    REQUIRE(scatter->selected());
    return scatter->selected()->point;
  };
  CHECK(press(Qt::Key_Right) == 1);
  CHECK(press(Qt::Key_Right) == 2);
  CHECK(press(Qt::Key_Right) == 0);
  CHECK(press(Qt::Key_Right) == 0);  // the last
  CHECK(press(Qt::Key_Down) == 1);
  CHECK(press(Qt::Key_Down) == 2);
  CHECK(press(Qt::Key_Up) == 1);
  CHECK(scatter->accessibleDescription() == "point 1");
  CHECK(activated.isEmpty());
  QTest::keyClick(scatter.get(), Qt::Key_Return);
  CHECK(activated.size() == 1);
  CHECK(chosen.size() == 7);
}

TEST_CASE("A click chooses the point under it; one beside all points chooses nothing") {
  const auto scatter = shown({{100, 100}, {900, 900}});
  const QSignalSpy chosen{scatter.get(), &Scatter::chosen};
  const auto place = [&](QPointF value) {
    const QPointF at = scatter->plot().mapToPosition(value, scatter->plot().series().front());
    return scatter->mapFromScene(scatter->plot().mapToScene(at));
  };
  QTest::mouseClick(scatter->viewport(), Qt::LeftButton, {}, place({900, 900}));
  REQUIRE(chosen.size() == 1);
  CHECK(scatter->selected() == ScatterAt{0, 1});
  QTest::mouseClick(scatter->viewport(), Qt::LeftButton, {}, place({500, 500}));
  CHECK(chosen.size() == 1);
}

TEST_CASE("Fewer sets or points take a selection away that is not there any more") {
  const auto scatter = shown({{100, 100}, {900, 900}});
  scatter->select(ScatterAt{0, 1});
  scatter->set_sets({{"points", Marker::disc, Qt::blue, 6, {{100, 100}}}});
  CHECK_FALSE(scatter->selected());
  scatter->select(ScatterAt{3, 0});
  CHECK_FALSE(scatter->selected());
}

TEST_CASE("Round numbers stand on an axis") {
  CHECK_THAT(round_interval(6, 6), WithinRel(1.0));
  CHECK_THAT(round_interval(130, 6), WithinRel(20.0));
  CHECK_THAT(round_interval(0.3, 6), WithinRel(0.05));
}

}  // namespace ui
