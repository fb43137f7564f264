#include "ui/panes/chip.hpp"

#include <QPainter>

#include "ui/core/theme.hpp"

namespace ui {

QSize Chip::sizeHint() const {
  return {std::max(23, fontMetrics().horizontalAdvance(text()) + 12), fontMetrics().height() + 5};
}

void Chip::paintEvent(QPaintEvent*) {
  QPainter painter{this};
  painter.setRenderHint(QPainter::Antialiasing);
  const Theme& theme = theme_of(*this);
  const QRectF box = QRectF{rect()}.adjusted(1, 1, -1, -1);
  painter.setPen(QPen{hasFocus() ? theme.accent : theme.grid, hasFocus() ? 2.0 : 1.0,
                      isEnabled() ? Qt::SolidLine : Qt::DotLine});
  painter.setBrush(isChecked() ? QBrush{theme.accent}
                               : QBrush{isEnabled() ? theme.ground : theme.panel});
  painter.drawRoundedRect(box, 3, 3);
  painter.setPen(isChecked() ? text_on(theme.accent) : isEnabled() ? theme.text : theme.muted);
  painter.drawText(rect(), Qt::AlignCenter, text());
}

}  // namespace ui
