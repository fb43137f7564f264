#include "ui/window/export_view.hpp"

#include <QBuffer>
#include <QPainter>
#include <QPixmap>
#include <QSvgGenerator>
#include <QTableView>

#include "ui/core/csv.hpp"
#include "ui/core/write_file.hpp"

namespace ui {
namespace {

QString write_svg(QWidget& view, const QString& path) {
  QBuffer picture;
  QSvgGenerator generator;
  generator.setOutputDevice(&picture);
  generator.setSize(view.size());
  generator.setViewBox(QRect{QPoint{}, view.size()});
  generator.setTitle(view.accessibleName());
  QPainter painter;
  painter.begin(&generator);
  view.render(&painter);
  painter.end();
  return write_file(path, picture.data());
}

QString write_png(QWidget& view, const QString& path) {
  QBuffer picture;
  picture.open(QIODevice::WriteOnly);
  view.grab().save(&picture, "PNG");
  return write_file(path, picture.data());
}

QString write_csv(const QWidget& view, const QString& path) {
  const auto* table = qobject_cast<const QTableView*>(&view);
  // Other views with a table behind them have a method of that name.
  const bool writes = view.metaObject()->indexOfMethod("csv()") >= 0;
  if (!table && !writes)
    return path + ": only tables can be written as CSV; pictures as PNG or SVG";
  QString cells;
  if (writes)
    QMetaObject::invokeMethod(const_cast<QWidget*>(&view), "csv", Qt::DirectConnection,
                              Q_RETURN_ARG(QString, cells));
  else
    cells = csv_of(*table);
  return write_file(path, cells.toUtf8());
}

}  // namespace

QString write_view(QWidget& view, const QString& path) {
  if (path.endsWith(".svg", Qt::CaseInsensitive)) return write_svg(view, path);
  if (path.endsWith(".csv", Qt::CaseInsensitive)) return write_csv(view, path);
  if (!path.endsWith(".png", Qt::CaseInsensitive))
    return path + ": a view is written as .png, .svg or, of a table, .csv";
  return write_png(view, path);
}

}  // namespace ui
