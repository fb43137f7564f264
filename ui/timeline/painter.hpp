// Draws rows of a timeline: columns of the dominant class, bubbles hatched, names where they fit.
#pragma once

#include <QPainter>
#include <QRect>
#include <QString>
#include <vector>

#include "sim/timeline/critical_path.hpp"
#include "ui/core/selection.hpp"
#include "ui/core/theme.hpp"
#include "ui/lanes/columns.hpp"
#include "ui/timeline/rows.hpp"

namespace ui {

// Canvas is where the rows are on the widget: time to the right, the rows from the top.
struct Canvas {
  QRect area;         // of the rows, without the gutter
  TimeWindow window;  // that is visible
  int scroll = 0;     // pixels of rows above the area
  int pinned = 0;     // pixels of its top that do not scroll
  double x_of(double time) const {
    return area.left() + (time - window.from) / window.length() * area.width();
  }
  double time_at(double x) const {
    return window.from + (x - area.left()) / area.width() * window.length();
  }
  int y_of(const Row& row) const { return area.top() + row.y - (row.pinned ? 0 : scroll); }
  bool shows(const Row& row) const {
    return y_of(row) < area.bottom() && y_of(row) + row.height > part(row.pinned).top();
  }
  // part() is where rows that are pinned, or are not, may be drawn.
  QRect part(bool of_pinned) const {
    return of_pinned ? QRect{area.left(), area.top(), area.width(), pinned}
                     : area.adjusted(0, pinned, 0, 0);
  }
};

// The row and the strip that an operator is drawn in; null: not shown.
struct StripAt {
  const Row* row = nullptr;
  const Strip* strip = nullptr;
  std::size_t span = 0;
};
StripAt find_operator(const std::vector<Row>& rows, const OperatorAt& at);

class TimelinePainter {
 public:
  TimelinePainter(QPainter& painter, const Theme& theme, const Canvas& canvas)
      : painter_{painter}, theme_{theme}, canvas_{canvas} {}

  void row(const Row& row);
  // The spans of the row whose name is marked, by index into Program::names, get a bar on top.
  void matches(const Row& row, const std::vector<bool>& marked);
  void critical_path(const std::vector<Row>& rows, const std::vector<sim::PathStep>& path);
  void selected(const std::vector<Row>& rows, const OperatorAt& at);
  void axis(const QRect& area);  // ticks and times, above the rows

 private:
  void bubbles(const Row& row, const std::vector<std::uint8_t>& columns);
  void names(const Row& row);
  void partners(const std::vector<Row>& rows, const StripAt& of);
  void waits(const Row& row);

  QPainter& painter_;
  const Theme& theme_;
  const Canvas& canvas_;
};

// Round times of the axis: so far apart that their texts do not touch.
std::vector<double> tick_times(const TimeWindow& window, int width, int least_distance);
// "1.204 ms": as precise as the window needs it.
QString time_text(double ps, double window_length);

}  // namespace ui
