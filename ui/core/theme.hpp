// Colours of the window: a light and a dark palette, and those of spans in each.
#pragma once

#include <QColor>
#include <QPalette>
#include <QWidget>
#include <array>

#include "sim/timeline/ink.hpp"

namespace ui {

struct Theme {
  bool dark = false;
  QColor ground, panel, text, muted, grid, accent, good, bad, warn, selection;
  std::array<QColor, sim::ink_count> ink;
  std::array<QColor, sim::buffer_category_count> memory;  // by sim::BufferCategory
  std::array<QColor, 8> parts;  // of sim::Breakdown, in the order of sim::breakdown_fields
};

const Theme& light_theme();
const Theme& dark_theme();
// The one that the widget's palette belongs to.
const Theme& theme_of(const QWidget& widget);
QPalette palette_of(const Theme& theme);

// (L1 + 0.05) / (L2 + 0.05) of WCAG 2.1, 1 to 21.
double contrast(const QColor& a, const QColor& b);
// Black or white, whichever reads better on it.
QColor text_on(const QColor& ground);

}  // namespace ui
