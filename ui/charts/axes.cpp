#include "ui/charts/axes.hpp"

#include <QLegend>
#include <QLogValueAxis>
#include <QValueAxis>
#include <algorithm>
#include <cmath>

namespace ui {
namespace {

constexpr double narrow = 20;  // largest over smallest: a power of ten may not lie between

// Digits behind the point that tell multiples of `interval` apart.
int digits_of(double interval) {
  return std::clamp(static_cast<int>(std::ceil(-std::log10(interval) - 1e-9)), 0, 9);
}

void set_range(QValueAxis& axis, const ScatterAxis& wanted, int parts) {
  const double length = wanted.most > wanted.least ? wanted.most - wanted.least : 1;
  double interval = round_interval(length, parts);
  if (wanted.whole) interval = std::max(1.0, interval);
  axis.setRange(wanted.least, wanted.least + length);
  axis.setTickType(QValueAxis::TicksDynamic);
  axis.setTickAnchor(0);
  axis.setTickInterval(interval);
  axis.setLabelFormat(QString{"%.%1f"}.arg(digits_of(interval)));
}

void set_range(QLogValueAxis& axis, const ScatterAxis& wanted) {
  axis.setBase(wanted.most / wanted.least < narrow ? 2 : 10);
  axis.setRange(wanted.least, wanted.most);
  axis.setMinorTickCount(-1);
  axis.setLabelFormat("%g");
}

}  // namespace

double round_interval(double length, int parts) {
  const double rough = length / parts;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  const double mantissa = rough / power;
  return power * (mantissa < 1.5 ? 1 : mantissa < 3.5 ? 2 : mantissa < 7.5 ? 5 : 10);
}

QAbstractAxis* make_axis(QChart& chart, const ScatterAxis& wanted, QAbstractAxis* old,
                         Qt::Alignment side, int parts) {
  auto* linear = qobject_cast<QValueAxis*>(old);
  auto* logarithmic = qobject_cast<QLogValueAxis*>(old);
  QAbstractAxis* axis = wanted.logarithmic ? static_cast<QAbstractAxis*>(logarithmic) : linear;
  if (!axis) {
    if (old) {
      chart.removeAxis(old);
      old->deleteLater();
    }
    if (wanted.logarithmic)
      axis = logarithmic = new QLogValueAxis;
    else
      axis = linear = new QValueAxis;
    chart.addAxis(axis, side);
  }
  axis->setTitleText(wanted.title);
  if (wanted.logarithmic)
    set_range(*logarithmic, wanted);
  else
    set_range(*linear, wanted, parts);
  return axis;
}

void apply_theme(QChart& chart, const Theme& theme, const QFont& font) {
  chart.setBackgroundBrush(theme.ground);
  chart.setBackgroundPen(Qt::NoPen);
  chart.setBackgroundRoundness(0);
  chart.setMargins({6, 6, 12, 4});
  chart.legend()->setLabelColor(theme.text);
  chart.legend()->setFont(font);
  QColor faint = theme.grid;
  faint.setAlphaF(0.7F);
  for (QAbstractAxis* axis : chart.axes()) {
    axis->setLabelsColor(theme.muted);
    axis->setLabelsFont(font);
    axis->setTitleBrush(theme.text);
    axis->setTitleFont(font);
    axis->setLinePenColor(theme.grid);
    axis->setGridLineColor(faint);
    axis->setMinorGridLineVisible(false);
  }
}

}  // namespace ui
