// Counters over time, stacked: each column of pixels shows the instant at which their sum is
// highest.
#pragma once

#include <QColor>
#include <QPainter>
#include <QRect>
#include <functional>
#include <vector>

#include "sim/timeline/trace_counters.hpp"
#include "ui/lanes/columns.hpp"

namespace ui {

struct StackedChart {
  const sim::CounterSeries& series;
  TimeWindow window;
  double unit = 1;   // of the series' values in one of the axis
  double below = 0;  // under the lowest one, in the unit of the axis
  double top = 1;    // of the axis

  double y_of(const QRect& area, double value) const {
    return area.bottom() - value / top * area.height();
  }
  // `order`: which of the series' values, from below; `colours` of each.
  void paint(QPainter& painter, const QRect& area, const std::vector<std::size_t>& order,
             const std::function<QColor(std::size_t)>& colours) const;
};

// The highest sum of all values at one instant, in the series' unit.
std::int64_t highest(const sim::CounterSeries& series);
// used_values() are those that are ever above 0.
std::vector<std::size_t> used_values(const sim::CounterSeries& series);

}  // namespace ui
