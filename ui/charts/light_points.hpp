// Many points in a Qt chart, drawn fast: a line that is not seen, with a light marker at each of
// its points. QScatterSeries makes an item of the scene of each and takes ten times as long.
#pragma once

#include <QChart>
#include <QImage>
#include <QLineSeries>
#include <QList>
#include <QPointF>
#include <optional>

#include "ui/charts/nearest.hpp"

namespace ui {

// Shapes, because nothing is told by colour alone.
enum class Marker { disc, ring, square, diamond, triangle, cross, target };

// A marker with sides of `size` px.
QImage marker_image(Marker shape, const QColor& colour, double size);

class LightPoints {
 public:
  // A series of the chart, on those axes; the chart owns it. Axes must be in the chart.
  LightPoints(QChart& chart, QAbstractAxis& x, QAbstractAxis& y, const QString& name);

  void set_marker(Marker shape, const QColor& colour, double size);
  void set_points(const QList<QPointF>& points);  // in the units of the axes
  QList<QPointF> points() const { return series_->points(); }
  QLineSeries& series() { return *series_; }

  // The point nearest to a place in the chart's own coordinates (those of mapToPosition).
  std::optional<Hit> nearest(const QPointF& place, double within) const;
  // Places are computed anew: the axes or the size of the chart have changed.
  void forget_places() { places_known_ = false; }

 private:
  QChart& chart_;
  QLineSeries* series_;
  Marker shape_ = Marker::disc;
  QColor colour_{};
  double size_ = 0;
  mutable Nearest places_;
  mutable bool places_known_ = false;
};

}  // namespace ui
