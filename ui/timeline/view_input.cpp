// Mouse, wheel and keys in the timeline.
#include <QKeyEvent>
#include <QMouseEvent>
#include <algorithm>
#include <cmath>

#include "ui/core/operator_text.hpp"
#include "ui/timeline/pointer.hpp"
#include "ui/timeline/view.hpp"

namespace ui {

void TimelineView::mousePressEvent(QMouseEvent* event) {
  if (!shown_) return;
  pressed_ = event->pos();
  pressed_window_ = window_;
  pressed_time_ = canvas().time_at(event->position().x());
  if (event->pos().y() < overview_height)
    drag_ = Drag::overview;
  else if (event->button() == Qt::MiddleButton || event->modifiers() & Qt::ShiftModifier)
    drag_ = Drag::pan;
  else if (event->pos().x() >= gutter)
    drag_ = Drag::area;
  if (drag_ == Drag::overview) mouseMoveEvent(event);
}

void TimelineView::mouseMoveEvent(QMouseEvent* event) {
  if (!shown_ || drag_ == Drag::none) return;
  const double moved = event->position().x() - pressed_.x();
  if (drag_ == Drag::overview) {
    const double share = (event->position().x() - gutter) / std::max(1, width() - gutter);
    const double centre = share * static_cast<double>(shown_->lanes.end);
    set_window({centre - window_.length() / 2, centre + window_.length() / 2});
  } else if (drag_ == Drag::pan) {
    drag_window(moved);
  } else if (std::abs(moved) > 3) {
    const double now = canvas().time_at(event->position().x());
    Selection selection = session_.selection();
    selection.op.reset();
    selection.area =
        TimeArea{static_cast<std::int64_t>(std::max(0.0, std::min(pressed_time_, now))),
                 static_cast<std::int64_t>(std::min(static_cast<double>(shown_->lanes.end),
                                                    std::max(pressed_time_, now)))};
    session_.select(selection);
  }
}

void TimelineView::mouseReleaseEvent(QMouseEvent* event) {
  const bool clicked = (event->pos() - pressed_).manhattanLength() <= 3;
  if (shown_ && clicked && event->button() == Qt::LeftButton) {
    if (event->pos().x() < gutter) {
      if (const Row* row = row_at(rows_, canvas(), event->pos()); row && row->head)
        toggle_stage(row->group->stage);
    } else if (const std::optional<OperatorAt> at = operator_at(event->pos())) {
      select_operator(*at, false);
    } else if (event->pos().y() > overview_height) {
      session_.select({std::nullopt, std::nullopt, session_.selection().stage});
    }
  }
  drag_ = Drag::none;
}

void TimelineView::mouseDoubleClickEvent(QMouseEvent* event) {
  if (operator_at(event->pos())) fit_selected();
}

QString TimelineView::text_at(QPoint place) const {
  const std::optional<OperatorAt> at = operator_at(place);
  return at ? operator_line(*shown_, *at) : QString{};
}

void TimelineView::select_as_area() {
  const auto& op = session_.selection().op;
  if (!op || !shown_) return;
  const sim::Span& span = shown_->forecast.timeline.tracks[op->track].spans[op->op];
  session_.select(
      {std::nullopt,
       TimeArea{span.active.time_since_epoch().count(), span.end.time_since_epoch().count()},
       session_.selection().stage});
}

void TimelineView::keyPressEvent(QKeyEvent* event) {
  if (take_key(event->key())) return;
  switch (event->key()) {
    case Qt::Key_F:
      return event->isAutoRepeat() ? void() : fit_in_turn();
    case Qt::Key_Period:
      return step_operator(true);
    case Qt::Key_Comma:
      return step_operator(false);
    case Qt::Key_BracketRight:
      return step_path(true);
    case Qt::Key_BracketLeft:
      return step_path(false);
    case Qt::Key_N:
      return step_match(!(event->modifiers() & Qt::ShiftModifier));
    case Qt::Key_Return:
    case Qt::Key_Enter:
      return toggle_stage(session_.selection().stage);
    case Qt::Key_R:
      return select_as_area();
    case Qt::Key_Escape:
      return session_.select({std::nullopt, std::nullopt, session_.selection().stage});
    default:
      QWidget::keyPressEvent(event);
  }
}

}  // namespace ui
