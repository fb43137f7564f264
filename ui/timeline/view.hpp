// The timeline of the newest forecast: zoom, pan, select, search, follow the critical path.
#pragma once

#include <QRegularExpression>
#include <optional>
#include <set>

#include "ui/core/session.hpp"
#include "ui/timeline/lane_canvas.hpp"

namespace ui {

class TimelineView : public LaneCanvas {
  Q_OBJECT

 public:
  explicit TimelineView(Session& session, QWidget* parent = nullptr);

  void fit_selected();           // the selected operator or area
  void fit_in_turn();            // the selected, then the whole step
  void toggle_stage(int stage);  // its streams, each in a row
  void toggle_pin(int stage);    // whether its lanes stay above the others
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
  QSize sizeHint() const override { return {900, 480}; }

 protected:
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  std::optional<TimeWindow> all() const override;
  QString text_at(QPoint at) const override;

 private:
  static constexpr int gutter = 132;  // px, of the labels
  static constexpr int overview_height = 26;
  static constexpr int axis_height = 22;

  void adopt_result();
  void remake_rows();
  void paint_rows(QPainter& painter, const Canvas& canvas, bool pinned);
  void paint_pins(QPainter& painter, const Canvas& canvas);
  void paint_overview(QPainter& painter);
  void paint_area(QPainter& painter, const Canvas& canvas);
  std::optional<OperatorAt> operator_at(QPoint at) const;
  void select_operator(const OperatorAt& at, bool reveal);
  void show_operator(const OperatorAt& at);
  bool marked(const OperatorAt& at) const;
  void select_as_area();  // the selected operator
  void describe();        // for who cannot see the picture

  Session& session_;
  ResultPtr shown_;
  LaneChoice choice_;
  bool path_shown_ = true;
  QRegularExpression pattern_;
  std::vector<std::vector<bool>> marked_;  // [group][name]
  enum class Drag { none, area, pan, overview } drag_ = Drag::none;
  QPoint pressed_;
  double pressed_time_ = 0;
};

}  // namespace ui
