// A scatter chart: sets of points, lines of reference, one point selected; by mouse and by keys.
#pragma once

#include <QChartView>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "ui/charts/axes.hpp"
#include "ui/charts/light_points.hpp"

namespace ui {

struct ScatterSet {
  QString name;  // in the legend; empty: not there
  Marker marker = Marker::disc;
  QColor colour;
  double size = 8;  // px
  QList<QPointF> points;
};

struct ScatterLine {
  QString name;
  QColor colour;
  Qt::PenStyle style = Qt::DashLine;
  double width = 1.5;
  QList<QPointF> points;
};

struct ScatterAt {
  int set = 0, point = 0;
  bool operator==(const ScatterAt&) const = default;
};

class Scatter : public QChartView {
  Q_OBJECT

 public:
  explicit Scatter(const QString& accessible_name, QWidget* parent = nullptr);

  void set_axes(const ScatterAxis& x, const ScatterAxis& y);
  void set_lines(const std::vector<ScatterLine>& lines);
  // Keeps the series of a set whose place in the list is the same, so that points can be replaced
  // often.
  void set_sets(const std::vector<ScatterSet>& sets);
  void select(std::optional<ScatterAt> at);
  std::optional<ScatterAt> selected() const { return selected_; }
  // set_describe() sets what a point says: shown beside the pointer, and read to who cannot see it.
  void set_describe(std::function<QString(const ScatterAt&)> describe);
  // Shown in the middle while there are no points.
  void set_empty_text(const QString& text);
  void reset_zoom();
  std::optional<ScatterAt> nearest(const QPointF& place) const;  // of the chart's coordinates
  QPoint screen_place(const ScatterAt& at) const;
  QChart& plot() { return *chart(); }

 Q_SIGNALS:
  void chosen(ui::ScatterAt at);     // by a click or a key
  void activated(ui::ScatterAt at);  // by a double click or Enter

 protected:
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent* event) override;
  void wheelEvent(QWheelEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void changeEvent(QEvent* event) override;
  void focusInEvent(QFocusEvent* event) override;
  void focusOutEvent(QFocusEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void drawForeground(QPainter* painter, const QRectF& rect) override;
  bool viewportEvent(QEvent* event) override;

 private:
  void forget_places();
  void zoom(double factor, const QPointF& at);
  void walk(bool forward, bool along_x);
  void choose(const ScatterAt& at);
  QPointF value_of(const ScatterAt& at) const;
  void mark_selected();
  void show_chart();
  void apply_theme();
  void attach_all();
  LightPoints& mark();

  std::pair<ScatterAxis, ScatterAxis> asked_;  // x, y
  QAbstractAxis* x_ = nullptr;
  QAbstractAxis* y_ = nullptr;
  std::vector<std::unique_ptr<LightPoints>> sets_;
  std::vector<QLineSeries*> lines_;
  std::unique_ptr<LightPoints> mark_;
  std::optional<ScatterAt> selected_;
  std::function<QString(const ScatterAt&)> describe_;
  QString empty_text_;
  bool shows_text_ = false;  // in place of the chart
  QPoint pressed_;
};

}  // namespace ui
