#include "ui/charts/light_points.hpp"

#include <QPainter>
#include <cmath>

namespace ui {
namespace {

constexpr int oversampling = 2;  // for screens with small pixels

void paint_marker(QPainter& painter, Marker shape, const QColor& colour, const QRectF& box) {
  const double stroke = std::max(1.4, box.width() / 6);
  const QRectF inner = box.adjusted(stroke, stroke, -stroke, -stroke);
  const QPointF middle = box.center();
  const QPen line{colour, stroke, Qt::SolidLine, Qt::RoundCap, Qt::MiterJoin};
  painter.setPen(Qt::NoPen);
  painter.setBrush(colour);
  switch (shape) {
    case Marker::disc:
      painter.drawEllipse(inner);
      break;
    case Marker::square:
      painter.drawRect(inner);
      break;
    case Marker::diamond:
      painter.drawPolygon(QPolygonF{{middle.x(), box.top()},
                                    {box.right(), middle.y()},
                                    {middle.x(), box.bottom()},
                                    {box.left(), middle.y()}});
      break;
    case Marker::triangle:
      painter.drawPolygon(
          QPolygonF{{middle.x(), box.top()}, inner.bottomRight(), inner.bottomLeft()});
      break;
    case Marker::ring:
    case Marker::target:
      painter.setPen(line);
      painter.setBrush(Qt::NoBrush);
      painter.drawEllipse(inner);
      break;
    case Marker::cross:
      painter.setPen(line);
      painter.drawLine(inner.topLeft(), inner.bottomRight());
      painter.drawLine(inner.topRight(), inner.bottomLeft());
      break;
  }
  if (shape != Marker::target) return;
  painter.drawLine(QPointF{middle.x(), box.top()}, QPointF{middle.x(), inner.top()});
  painter.drawLine(QPointF{middle.x(), box.bottom()}, QPointF{middle.x(), inner.bottom()});
  painter.drawLine(QPointF{box.left(), middle.y()}, QPointF{inner.left(), middle.y()});
  painter.drawLine(QPointF{box.right(), middle.y()}, QPointF{inner.right(), middle.y()});
}

}  // namespace

QImage marker_image(Marker shape, const QColor& colour, double size) {
  const int side = static_cast<int>(std::ceil(size)) * oversampling;
  QImage image{side, side, QImage::Format_ARGB32_Premultiplied};
  image.fill(Qt::transparent);
  QPainter painter{&image};
  painter.setRenderHint(QPainter::Antialiasing);
  painter.scale(oversampling, oversampling);
  paint_marker(painter, shape, colour, QRectF{0, 0, std::ceil(size), std::ceil(size)});
  return image;
}

LightPoints::LightPoints(QChart& chart, QAbstractAxis& x, QAbstractAxis& y, const QString& name)
    : chart_{chart}, series_{new QLineSeries} {
  series_->setName(name);
  series_->setPen(Qt::NoPen);
  chart_.addSeries(series_);
  series_->attachAxis(&x);
  series_->attachAxis(&y);
}

void LightPoints::set_marker(Marker shape, const QColor& colour, double size) {
  if (shape == shape_ && colour == colour_ && size == size_) return;
  shape_ = shape;
  colour_ = colour;
  size_ = size;
  series_->setMarkerSize(std::ceil(size));
  series_->setLightMarker(marker_image(shape, colour, size));
  series_->setPen(Qt::NoPen);
}

void LightPoints::set_points(const QList<QPointF>& points) {
  if (points == series_->points()) return;
  series_->replace(points);
  places_known_ = false;
}

std::optional<Hit> LightPoints::nearest(const QPointF& place, double within) const {
  if (!places_known_) {
    QList<QPointF> places = series_->points();
    for (QPointF& point : places)
      point = chart_.mapToPosition(point, series_);
    places_ = Nearest{places};
    places_known_ = true;
  }
  return places_.at(place, within);
}

}  // namespace ui
