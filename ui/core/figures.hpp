// The figures of a forecast that the window shows: each with its unit, definition and source.
#pragma once

#include <QString>
#include <QStringList>
#include <vector>

#include "ui/core/result.hpp"

namespace ui {

struct Figure {
  QString key;  // as in the JSON report
  QString title;
  double value = 0;    // in the unit of `key`
  QString text;        // value and unit, for people
  QString definition;  // what it is, and what it rests on
  bool less_is_better = false;
  bool is_share = false;  // of 1: it changes by points
  QString range{};        // of the interval, where there is one: "6.08 to 6.86 s"
};

// The headline, in the order in which it is shown.
std::vector<Figure> headline_of(const sim::Report& report);

// The software that a forecast is of, as its report says it: a line, and what differs from its
// preset. Empty without any.
QStringList software_of(const sim::Report& report);

// "+6.8 %", of a share "+1.2 points", or empty where there is no change worth a digit.
QString change_text(const Figure& now, const Figure& before);

// part_definition() says what a part of the step is: sim::breakdown_fields[part].
QString part_definition(std::size_t part);

// "fits", "may not fit" or "does not fit".
QString fit_text(const sim::Report& report);

}  // namespace ui
