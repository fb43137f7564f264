#include "ui/panes/stacked_chart.hpp"

#include <algorithm>
#include <numeric>

namespace ui {
namespace {

std::int64_t sum_of(const sim::CounterPoint& point) {
  return std::accumulate(point.values.begin(), point.values.end(), std::int64_t{0});
}

std::int64_t time_of(const sim::CounterPoint& point) {
  return point.at.time_since_epoch().count();
}

}  // namespace

void StackedChart::paint(QPainter& painter, const QRect& area,
                         const std::vector<std::size_t>& order,
                         const std::function<QColor(std::size_t)>& colours) const {
  const auto& points = series.points;
  std::size_t next = 0;
  for (int x = 0; x < area.width() && !points.empty(); ++x) {
    const std::int64_t from = column_edge(window, area.width(), x);
    const std::int64_t to = column_edge(window, area.width(), x + 1);
    while (next + 1 < points.size() && time_of(points[next + 1]) <= from)
      ++next;
    std::size_t best = next;
    for (std::size_t i = next; i < points.size() && time_of(points[i]) < to; ++i) {
      if (sum_of(points[i]) > sum_of(points[best])) best = i;
      next = i;
    }
    double value = below;
    const double left = area.left() + x;
    for (const std::size_t which : order) {
      const double from_y = y_of(area, value);
      value += static_cast<double>(points[best].values[which]) / unit;
      painter.fillRect(QRectF{left, y_of(area, value), 1.0, from_y - y_of(area, value)},
                       colours(which));
    }
  }
}

std::int64_t highest(const sim::CounterSeries& series) {
  std::int64_t most = 0;
  for (const sim::CounterPoint& point : series.points)
    most = std::max(most, sum_of(point));
  return most;
}

std::vector<std::size_t> used_values(const sim::CounterSeries& series) {
  std::vector<std::size_t> used;
  for (std::size_t i = 0; i < series.names.size(); ++i)
    if (std::any_of(series.points.begin(), series.points.end(),
                    [i](const sim::CounterPoint& point) { return point.values[i] > 0; }))
      used.push_back(i);
  return used;
}

}  // namespace ui
