#include "ui/timeline/lane_canvas.hpp"

#include <QHelpEvent>
#include <QPainter>
#include <QToolTip>
#include <QWheelEvent>
#include <algorithm>

#include "ui/timeline/pointer.hpp"

namespace ui {
namespace {

constexpr double shortest_window = 1000;  // picoseconds
constexpr int scroll_key = 22;            // px

}  // namespace

LaneCanvas::LaneCanvas(const Frame& frame, QWidget* parent) : QWidget{parent}, frame_{frame} {
  setFocusPolicy(Qt::StrongFocus);
  setMouseTracking(true);
}

void LaneCanvas::set_window(TimeWindow window) {
  const std::optional<TimeWindow> lanes = all();
  if (!lanes) return;
  const double length = std::clamp(window.length(), shortest_window, lanes->length());
  window.from = std::clamp(window.from, lanes->from, lanes->to - length);
  window.to = window.from + length;
  window_ = window;
  whole_ = length >= lanes->length();
  Q_EMIT window_changed();
  update();
}

void LaneCanvas::fit() {
  if (const std::optional<TimeWindow> lanes = all()) set_window(*lanes);
}

void LaneCanvas::zoom(double factor, std::optional<double> at) {
  const double fixed = at.value_or((window_.from + window_.to) / 2);
  const double length = std::max(shortest_window, window_.length() * factor);
  const double share = (fixed - window_.from) / window_.length();
  set_window({fixed - share * length, fixed + (1 - share) * length});
}

void LaneCanvas::pan(double share) {
  const double by = window_.length() * share;
  set_window({window_.from + by, window_.to + by});
}

Canvas LaneCanvas::canvas() const {
  const QRect area{frame_.gutter, frame_.top, std::max(1, width() - frame_.gutter),
                   std::max(1, height() - frame_.top)};
  return {area, window_, scroll_, pinned_height(rows_)};
}

void LaneCanvas::set_scroll(int scroll) {
  const int height = rows_.empty() ? 0 : rows_.back().y + rows_.back().height + frame_.below;
  scroll_ = std::clamp(scroll, 0, std::max(0, height - canvas().area.height()));
  update();
}

void LaneCanvas::reveal(TimeWindow times, const Row* row) {
  if (times.from < window_.from || times.to > window_.to) {
    const double length = std::max(window_.length(), times.length() * 1.2);
    set_window({(times.from + times.to - length) / 2, (times.from + times.to + length) / 2});
  }
  if (!row || row->pinned) return;
  const Canvas now = canvas();
  if (row->y < scroll_ + now.pinned) set_scroll(row->y - now.pinned - frame_.gap);
  const int hidden = row->y + row->height - now.area.height();
  if (hidden > scroll_) set_scroll(hidden + frame_.gap);
}

void LaneCanvas::drag_window(double moved) {
  const double by = moved / canvas().area.width() * pressed_window_.length();
  set_window({pressed_window_.from - by, pressed_window_.to - by});
}

bool LaneCanvas::take_key(int key) {
  if (key == Qt::Key_W)
    zoom(0.7);
  else if (key == Qt::Key_S)
    zoom(1 / 0.7);
  else if (key == Qt::Key_A || key == Qt::Key_D)
    pan(key == Qt::Key_A ? -0.2 : 0.2);
  else if (key == Qt::Key_Up || key == Qt::Key_Down)
    set_scroll(scroll_ + (key == Qt::Key_Up ? -scroll_key : scroll_key));
  else if (key == Qt::Key_Home)
    fit();
  else
    return false;
  return true;
}

void LaneCanvas::paint_empty(QPainter& painter, const QString& text) {
  painter.setPen(theme_of(*this).muted);
  painter.drawText(rect().adjusted(40, 0, -40, 0), Qt::AlignCenter | Qt::TextWordWrap, text);
}

void LaneCanvas::paint_labels(QPainter& painter, const Canvas& now) {
  const Theme& theme = theme_of(*this);
  painter.fillRect(QRect{0, frame_.panel_top, frame_.gutter - 4, height()}, theme.panel);
  for (const bool pinned : {false, true}) {
    const QRect part = now.part(pinned);
    painter.setClipRect(QRect{0, part.top(), frame_.gutter - 4, part.height()});
    for (const Row& row : rows_)
      if (row.pinned == pinned && !row.label.isEmpty() && now.shows(row))
        paint_label(painter, theme, now, row, frame_.gutter - 26, opened(row));
  }
  painter.setClipping(false);
}

void LaneCanvas::paint_focus(QPainter& painter) {
  if (!hasFocus()) return;
  painter.setPen(QPen{theme_of(*this).accent, 1});
  painter.drawRect(rect().adjusted(0, 0, -1, -1));
}

void LaneCanvas::wheelEvent(QWheelEvent* event) {
  const WheelTurn turn = wheel_turn(*event);
  if (turn.zoom)
    zoom(*turn.zoom, canvas().time_at(event->position().x()));
  else if (turn.pan)
    pan(*turn.pan);
  else
    set_scroll(scroll_ + turn.scroll);
  event->accept();
}

bool LaneCanvas::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip || !all()) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  const QString text = text_at(help->pos());
  if (text.isEmpty())
    QToolTip::hideText();
  else
    QToolTip::showText(help->globalPos(), text, this);
  return true;
}

}  // namespace ui
