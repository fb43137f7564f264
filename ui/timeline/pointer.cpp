#include "ui/timeline/pointer.hpp"

#include <algorithm>
#include <cmath>

namespace ui {

const Row* row_at(const std::vector<Row>& rows, const Canvas& canvas, QPoint at) {
  for (const Row& row : rows)
    if (at.y() >= canvas.y_of(row) && at.y() < canvas.y_of(row) + row.height &&
        canvas.part(row.pinned).top() <= at.y() && at.y() <= canvas.part(row.pinned).bottom())
      return &row;
  return nullptr;
}

std::optional<OperatorAt> operator_near(const Row& row, const Canvas& canvas, int x) {
  const auto from = static_cast<std::int64_t>(canvas.time_at(x - 2));
  const auto time = static_cast<std::int64_t>(canvas.time_at(x + 0.5));
  const auto to = static_cast<std::int64_t>(canvas.time_at(x + 3));
  std::optional<OperatorAt> nearest;
  std::int64_t distance = INT64_MAX;
  for (const Strip* strip : row.strips)
    for (std::size_t i = strip->first_ending_after(from); i < strip->size() && strip->begin[i] < to;
         ++i) {
      const std::int64_t away =
          std::max<std::int64_t>({0, strip->begin[i] - time, time - strip->end[i]});
      if (away >= distance) continue;
      distance = away;
      nearest = OperatorAt{row.group->track, strip->op[i]};
    }
  return nearest;
}

WheelTurn wheel_turn(const QWheelEvent& event) {
  const QPoint turn = event.angleDelta();
  if (event.modifiers() & Qt::ControlModifier)
    return {.zoom = std::pow(0.998, turn.y()), .pan = {}};
  if (event.modifiers() & Qt::ShiftModifier || std::abs(turn.x()) > std::abs(turn.y()))
    return {.zoom = {}, .pan = -(turn.x() ? turn.x() : turn.y()) / 1200.0};
  return {.zoom = {}, .pan = {}, .scroll = -turn.y() / 2};
}

void paint_label(QPainter& painter, const Theme& theme, const Canvas& canvas, const Row& row,
                 int width, std::optional<bool> open) {
  painter.setPen(row.head ? theme.text : theme.muted);
  const QRect box{row.head ? 18 : 26, canvas.y_of(row), width, row.height};
  painter.drawText(box, Qt::AlignVCenter | Qt::AlignLeft,
                   painter.fontMetrics().elidedText(row.label, Qt::ElideRight, box.width()));
  if (row.head && open)
    painter.drawText(QRect{5, canvas.y_of(row), 12, row.height}, Qt::AlignCenter,
                     *open ? QStringLiteral("▾") : QStringLiteral("▸"));
}

}  // namespace ui
