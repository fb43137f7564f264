// Axes of a Qt chart with round numbers on them, in the window's colours.
#pragma once

#include <QAbstractAxis>
#include <QChart>
#include <QString>

#include "ui/core/theme.hpp"

namespace ui {

struct ScatterAxis {
  QString title;  // with the unit
  double least = 0, most = 1;
  bool logarithmic = false;  // then both are above 0
  bool whole = false;        // only whole numbers are written
};

// 1, 2 or 5 times a power of ten: about `parts` of them are as long as `length`. REQUIRES: both
// above 0.
double round_interval(double length, int parts);

// Gives `old` the wanted range, or makes another axis and puts it in its place where it is of
// another kind, or null. The series of the old one are not attached to the new one. A linear axis
// has about so many `parts`.
QAbstractAxis* make_axis(QChart& chart, const ScatterAxis& wanted, QAbstractAxis* old,
                         Qt::Alignment side, int parts);

void apply_theme(QChart& chart, const Theme& theme, const QFont& font);

}  // namespace ui
