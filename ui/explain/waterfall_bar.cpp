#include "ui/explain/waterfall_bar.hpp"

#include <QPainter>
#include <QWidget>
#include <algorithm>

#include "ui/core/theme.hpp"

namespace ui {
namespace {

constexpr double least_difference = 0.3;  // of the axis that the difference takes, uncut
constexpr double least_width = 2;         // px
constexpr int side = 6, above = 3;        // px around a bar

// Two slanted strokes through a bar that begins left of the axis.
void paint_cut(QPainter& painter, const QRectF& bar, const QColor& ground) {
  painter.setPen(QPen{ground, 2});
  for (const double x : {bar.left() + 8, bar.left() + 13})
    painter.drawLine(QPointF{x - 2, bar.bottom() + 1}, QPointF{x + 2, bar.top() - 1});
}

void paint_selected(QPainter& painter, const QStyleOptionViewItem& option) {
  const QRect& box = option.rect;
  painter.setPen(QPen{theme_of(*option.widget).selection, 1});
  painter.drawLine(box.topLeft(), box.topRight());
  painter.drawLine(box.bottomLeft(), box.bottomRight());
}

}  // namespace

BarAxis axis_of(double least, double most) {
  if (most <= 0) return {};
  const double span = most - least;
  if (span >= least_difference * most || span <= 0) return {0, most};
  return {least - span / 2, most};
}

QSize WaterfallBarDelegate::sizeHint(const QStyleOptionViewItem& option, const QModelIndex&) const {
  return {0, option.fontMetrics.height() + 2 * above};
}

void WaterfallBarDelegate::paint(QPainter* painter, const QStyleOptionViewItem& option,
                                 const QModelIndex& index) const {
  // Bars stand on one ground; a selected row has lines instead, above and below.
  QStyleOptionViewItem plain = option;
  plain.state &= ~QStyle::State_Selected;
  QStyledItemDelegate::paint(painter, plain, index);
  if (option.state & QStyle::State_Selected) paint_selected(*painter, option);
  const auto kind = static_cast<WaterfallBar>(index.data(bar_kind_role).toInt());
  if (kind == WaterfallBar::none) return;
  const Theme& theme = theme_of(*option.widget);
  const QRectF area = QRectF{option.rect}.adjusted(side, above, -side, -above);
  const auto x = [&](double seconds) {
    const double share = (seconds - axis_.begin) / std::max(axis_.end - axis_.begin, 1e-12);
    return area.left() + std::clamp(share, 0.0, 1.0) * area.width();
  };
  const double from = index.data(bar_from_role).toDouble();
  const double to = index.data(bar_to_role).toDouble();
  double left = x(std::min(from, to));
  const double width = std::max(least_width, x(std::max(from, to)) - left);
  left = std::min(left, area.right() - width);
  const QRectF bar{left, area.top(), width, area.height()};
  const QColor colour = kind == WaterfallBar::whole  ? theme.accent
                        : kind == WaterfallBar::more ? theme.bad
                                                     : theme.good;
  painter->save();
  painter->setRenderHint(QPainter::Antialiasing);
  if (kind == WaterfallBar::less) {  // hatched: no sign is told by colour alone
    painter->fillRect(bar, QBrush{colour, Qt::BDiagPattern});
    painter->setPen(QPen{colour, 1});
    painter->drawRect(bar.adjusted(0.5, 0.5, -0.5, -0.5));
  } else {
    painter->fillRect(bar, colour);
  }
  if (kind == WaterfallBar::whole && axis_.cut()) paint_cut(*painter, bar, theme.ground);
  // Where the next row goes on.
  painter->setPen(QPen{theme.muted, 1, Qt::DotLine});
  painter->drawLine(QPointF{x(to), bar.bottom()}, QPointF{x(to), option.rect.bottom() + 1.0});
  painter->restore();
}

}  // namespace ui
