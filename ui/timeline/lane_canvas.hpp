// Lanes over a window of time, as the views of one timeline and of two share them: zoom, pan and
// scroll by wheel and keys, tool tips, the labels beside the lanes.
#pragma once

#include <QWidget>
#include <optional>
#include <vector>

#include "ui/timeline/painter.hpp"

namespace ui {

class LaneCanvas : public QWidget {
  Q_OBJECT

 public:
  const TimeWindow& window() const { return window_; }
  void set_window(TimeWindow window);  // as much of it as there are lanes
  void fit();                          // all of the lanes
  void zoom(double factor, std::optional<double> at = std::nullopt);  // `at`: stays where it is
  void pan(double share);                                             // of the window
  const std::vector<Row>& rows() const { return rows_; }

 Q_SIGNALS:
  void window_changed();

 protected:
  struct Frame {    // px
    int gutter;     // of the labels
    int top;        // above the lanes
    int panel_top;  // above the panel of the labels
    int gap;        // beside a lane that is scrolled into sight
    int below;      // the last lane
  };
  LaneCanvas(const Frame& frame, QWidget* parent);

  virtual std::optional<TimeWindow> all() const = 0;  // the time of the lanes; nothing: no lanes
  virtual QString text_at(QPoint at) const = 0;       // the tool tip; empty: none
  // Whether the streams of the row's rank are shown one by one; nothing: it has no arrow.
  virtual std::optional<bool> opened(const Row& row) const { return row.expanded; }

  Canvas canvas() const;
  void set_scroll(int scroll);
  void reveal(TimeWindow times, const Row* row);  // null: the times alone
  void drag_window(double moved);                 // px, since pressed_window_
  bool take_key(int key);                         // false: the key is not one of the canvas
  void paint_empty(QPainter& painter, const QString& text);
  void paint_labels(QPainter& painter, const Canvas& now);
  void paint_focus(QPainter& painter);
  void wheelEvent(QWheelEvent* event) override;
  bool event(QEvent* event) override;

  const Frame frame_;
  std::vector<Row> rows_;
  TimeWindow window_;
  TimeWindow pressed_window_;  // when the mouse was pressed
  int scroll_ = 0;
  bool whole_ = true;  // the window is all of the lanes
};

}  // namespace ui
