#include "ui/charts/stacked_bars.hpp"

#include <QHelpEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>

#include "ui/core/theme.hpp"

namespace ui {
namespace {

constexpr int bar_height = 18;
constexpr int gap = 4;
constexpr int swatch = 10;
constexpr int figure_width = 74;

}  // namespace

StackedBars::StackedBars(const QString& accessible_name, QWidget* parent) : QWidget{parent} {
  setAccessibleName(accessible_name);
  setSizePolicy(QSizePolicy::Preferred, QSizePolicy::Fixed);
}

void StackedBars::show(BarsShown shown) {
  shown_ = std::move(shown);
  describe();
  updateGeometry();
  update();
}

int StackedBars::line_height() const {
  return fontMetrics().height() + 3;
}

int StackedBars::legend_top() const {
  const int of_lines = shown_.lines.empty() ? 0 : line_height();
  return bars() * (bar_height + gap) + of_lines + gap;
}

QSize StackedBars::sizeHint() const {
  const int heads = shown_.second.isEmpty() ? 0 : 1;
  return {300, legend_top() + (heads + static_cast<int>(shown_.parts.size())) * line_height()};
}

double StackedBars::scale() const {
  double first = 0, second = 0;
  for (const BarPart& part : shown_.parts) {
    first += part.value;
    second += part.other;
  }
  return std::max({shown_.scale, first, second, 1e-12});
}

void StackedBars::paintEvent(QPaintEvent*) {
  QPainter painter{this};
  for (int bar = 0; bar < bars(); ++bar)
    paint_bar(painter, bar);
  paint_lines(painter);
  paint_legend(painter);
}

// Right of its name, where there are two.
QRectF StackedBars::bar_box(int bar) const {
  const int wide = std::max(fontMetrics().horizontalAdvance(shown_.first),
                            fontMetrics().horizontalAdvance(shown_.second));
  const double left = bars() > 1 ? std::min(wide + 8, width() / 3) : 0;
  return {left, static_cast<double>(bar * (bar_height + gap)), width() - left, bar_height};
}

void StackedBars::paint_bar(QPainter& painter, int bar) {
  const Theme& theme = theme_of(*this);
  const QRectF whole = bar_box(bar);
  painter.fillRect(whole, theme.grid);
  double x = whole.left();
  for (const BarPart& part : shown_.parts) {
    const double length = (bar == 0 ? part.value : part.other) / scale() * whole.width();
    const QRectF box{x, whole.top(), length, whole.height()};
    painter.fillRect(box, part.colour);
    if (part.hatched) painter.fillRect(box, QBrush{theme.text, Qt::BDiagPattern});
    // A seam, so that neighbours are told apart without colour.
    if (length > 2)
      painter.fillRect(QRectF{x + length - 1, whole.top(), 1, whole.height()}, theme.panel);
    x += length;
  }
  if (bars() < 2) return;
  painter.setPen(theme.muted);
  const QString name = bar == 0 ? shown_.first : shown_.second;
  painter.drawText(
      QRectF{0, whole.top(), whole.left() - 6, whole.height()}, Qt::AlignLeft | Qt::AlignVCenter,
      fontMetrics().elidedText(name, Qt::ElideRight, static_cast<int>(whole.left()) - 6));
}

void StackedBars::paint_lines(QPainter& painter) {
  const QRectF whole = bar_box(bars() - 1);
  const int bottom = static_cast<int>(whole.bottom()) + gap;
  int right = width();  // that the text of the line to the right leaves
  for (auto line = shown_.lines.rbegin(); line != shown_.lines.rend(); ++line) {
    const double x = std::min(whole.left() + line->at / scale() * whole.width(), width() - 1.0);
    painter.setPen(QPen{line->colour, 2, line->style});
    painter.drawLine(QPointF{x, 0}, QPointF{x, bottom + 1.0});
    const int wide = fontMetrics().horizontalAdvance(line->name);
    const int left = std::min(right - wide, static_cast<int>(x) - wide / 2);
    painter.drawText(QRect{left, bottom, wide + 2, line_height()}, Qt::AlignLeft | Qt::AlignVCenter,
                     line->name);
    right = left - 10;
  }
}

void StackedBars::paint_legend(QPainter& painter) {
  const Theme& theme = theme_of(*this);
  int y = legend_top();
  const int columns = bars();
  const auto figures = [&](const QString& first, const QString& second) {
    const int at = width() - columns * figure_width;
    constexpr int right = int{Qt::AlignRight} | int{Qt::AlignVCenter};
    painter.drawText(QRect{at, y, figure_width - 2, line_height()}, right, first);
    if (columns > 1)
      painter.drawText(QRect{at + figure_width, y, figure_width - 2, line_height()}, right, second);
  };
  if (columns > 1) {
    painter.setPen(theme.muted);
    figures(shown_.first, shown_.second);
    y += line_height();
  }
  for (const BarPart& part : shown_.parts) {
    const QRect box{0, y + (line_height() - swatch) / 2, swatch, swatch};
    painter.fillRect(box, part.colour);
    if (part.hatched) painter.fillRect(box, QBrush{theme.text, Qt::BDiagPattern});
    painter.setPen(theme.text);
    const QRect name{swatch + 6, y, width() - columns * figure_width - swatch - 8, line_height()};
    painter.drawText(name, Qt::AlignLeft | Qt::AlignVCenter,
                     fontMetrics().elidedText(part.name, Qt::ElideRight, name.width()));
    figures(part.text, part.other_text);
    y += line_height();
  }
}

bool StackedBars::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  const int heads = shown_.second.isEmpty() ? 0 : 1;
  const int line = (help->pos().y() - legend_top()) / line_height() - heads;
  const bool known =
      help->pos().y() >= legend_top() && line >= 0 && line < static_cast<int>(shown_.parts.size());
  QToolTip::showText(help->globalPos(),
                     known ? shown_.parts[static_cast<std::size_t>(line)].help : QString{}, this);
  return true;
}

void StackedBars::describe() {
  QStringList said;
  for (const BarPart& part : shown_.parts)
    said << part.name + " " + part.text +
                (part.other_text.isEmpty() ? QString{} : " (" + part.other_text + ")");
  for (const BarLine& line : shown_.lines)
    said << line.name;
  setAccessibleDescription(said.join(", "));
}

}  // namespace ui
