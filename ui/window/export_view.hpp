// A view as a file: PNG or SVG as it is drawn, CSV of tables.
#pragma once

#include <QString>
#include <QWidget>

namespace ui {

// write_view() goes by the ending of `path`. Returns what went wrong; empty: nothing.
QString write_view(QWidget& view, const QString& path);

}  // namespace ui
