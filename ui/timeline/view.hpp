// The timeline of the newest forecast: zoom, pan, select, search, follow the critical path.
#pragma once

#include <QRegularExpression>
#include <QWidget>
#include <optional>
#include <set>

#include "ui/core/session.hpp"
#include "ui/timeline/painter.hpp"

namespace ui {

class TimelineView : public QWidget {
  Q_OBJECT

 public:
  explicit TimelineView(Session& session, QWidget* parent = nullptr);

  const TimeWindow& window() const { return window_; }
  void set_window(TimeWindow window);
  void fit();  // the whole step
  void fit_selected();
  void fit_in_turn();  // the selected, then the whole step  // the selected operator or area
  void zoom(double factor, std::optional<double> at = std::nullopt);  // `at`: stays where it is
  void pan(double share);                                             // of the window
  void toggle_stage(int stage);                                       // its streams, each in a row
  void toggle_pin(int stage);  // whether its lanes stay above the others
  const LaneChoice& choice() const { return choice_; }
  // Shows lanes whose name matches ("stage 3 compute"); an empty pattern shows all. False: no
  // expression, and all are shown.
  bool filter_lanes(const QString& pattern);
  void show_critical_path(bool shown);
  bool shows_critical_path() const { return path_shown_; }
  // Marks every operator whose name matches; an empty pattern marks none. False: no expression.
  bool search(const QString& pattern);
  // Selects the next or previous match, operator of the lane, or step of the critical path.
  void step_match(bool forward);
  void step_operator(bool forward);
  void step_path(bool forward);
  const std::vector<Row>& rows() const { return rows_; }
  QSize sizeHint() const override { return {900, 480}; }

 Q_SIGNALS:
  void window_changed();

 protected:
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void wheelEvent(QWheelEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  bool event(QEvent* event) override;

 private:
  static constexpr int gutter = 132;  // px, of the labels
  static constexpr int overview_height = 26;
  static constexpr int axis_height = 22;

  Canvas canvas() const;
  void adopt_result();
  void remake_rows();
  void paint_rows(QPainter& painter, const Canvas& canvas, bool pinned);
  void paint_gutter(QPainter& painter, const Canvas& canvas);
  void paint_overview(QPainter& painter);
  void paint_area(QPainter& painter, const Canvas& canvas);
  std::optional<OperatorAt> operator_at(QPoint at) const;
  void select_operator(const OperatorAt& at, bool reveal);
  void reveal(const OperatorAt& at);
  void set_scroll(int scroll);
  bool marked(const OperatorAt& at) const;
  void select_as_area();  // the selected operator
  void describe();        // for who cannot see the picture

  Session& session_;
  ResultPtr shown_;
  std::vector<Row> rows_;
  LaneChoice choice_;
  TimeWindow window_;
  int scroll_ = 0;
  bool path_shown_ = true;
  bool whole_ = true;  // the window is the whole step, and stays so
  QRegularExpression pattern_;
  std::vector<std::vector<bool>> marked_;  // [group][name]
  enum class Drag { none, area, pan, overview } drag_ = Drag::none;
  QPoint pressed_;
  double pressed_time_ = 0;
  TimeWindow pressed_window_;
};

}  // namespace ui
