// The meaning of mouse and wheel on rows of a timeline; and the labels beside the rows.
#pragma once

#include <QPainter>
#include <QPoint>
#include <QString>
#include <QWheelEvent>
#include <optional>
#include <vector>

#include "ui/timeline/painter.hpp"

namespace ui {

// The row at a place of the widget; null: none.
const Row* row_at(const std::vector<Row>& rows, const Canvas& canvas, QPoint at);

// The operator of the row that is nearest to a column of the widget, within three px.
std::optional<OperatorAt> operator_near(const Row& row, const Canvas& canvas, int x);

// Ctrl zooms at the pointer, Shift or a horizontal turn pans, else the rows scroll.
struct WheelTurn {
  std::optional<double> zoom;  // factor of the window's length
  std::optional<double> pan;   // share of the window's length
  int scroll = 0;              // px
};
WheelTurn wheel_turn(const QWheelEvent& event);

// The row's label, `width` px wide, and of a rank's first row the arrow that opens its streams.
void paint_label(QPainter& painter, const Theme& theme, const Canvas& canvas, const Row& row,
                 int width, std::optional<bool> open);

}  // namespace ui
