// Two timelines on one axis: for each rank the forecast above the run, scrolled together.
#pragma once

#include <optional>
#include <vector>

#include "ui/timeline/lane_canvas.hpp"
#include "ui/validate/overlay.hpp"

namespace ui {

class OverlayView : public LaneCanvas {
  Q_OBJECT

 public:
  explicit OverlayView(QWidget* parent = nullptr);

  void set_overlay(OverlayPtr overlay);
  void set_empty_text(const QString& text);
  const TimeMap& map() const { return map_; }
  // Both begin together.
  void align_steps();
  // The run is as long as the forecast on the axis: where its time differs by a factor.
  void stretch(bool stretched);
  // The selected operator begins at once on both sides.
  void align_selected();

  const std::optional<OverlayAt>& selected() const { return selected_; }
  void select(std::optional<OverlayAt> at, bool reveal = false);
  // Selects the operator, aligns both sides at it, and zooms in where it would be a speck.
  void close_up(const OverlayAt& at);
  void step(bool forward);  // to the next operator of the lane
  void toggle_streams(std::size_t pair);
  QString text_of(const OverlayAt& at) const;
  QSize sizeHint() const override { return {900, 320}; }

 Q_SIGNALS:
  void selection_changed();

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
  std::optional<bool> opened(const Row& row) const override;

 private:
  Canvas canvas_of(int side) const;  // in times of that side
  void remake_rows();
  double shown_end() const;
  double shown_time(const OverlayAt& at) const;  // at which it is active
  double shown_end_of(const OverlayAt& at) const;
  void show_operator(const OverlayAt& at);
  std::optional<OverlayAt> operator_at(QPoint at) const;
  void paint_selected(QPainter& painter);

  OverlayPtr overlay_;
  QString empty_text_;
  TimeMap map_;
  bool stretched_ = false;
  std::vector<bool> open_;  // pairs whose streams are shown one by one
  std::optional<OverlayAt> selected_;
  std::optional<QPoint> pressed_;
  bool dragged_ = false;
};

}  // namespace ui
