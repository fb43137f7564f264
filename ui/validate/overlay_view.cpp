#include "ui/validate/overlay_view.hpp"

#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>
#include <QWheelEvent>
#include <algorithm>
#include <cmath>

#include "sim/report/numbers.hpp"
#include "ui/core/operator_text.hpp"
#include "ui/timeline/pointer.hpp"

namespace ui {
namespace {

constexpr int gutter = 168;
constexpr int axis_height = 22;
constexpr int pair_gap = 10;
constexpr double shortest_window = 1000;  // picoseconds
constexpr int least_drag = 4;             // px

double ps(sim::TimePoint time) {
  return static_cast<double>(time.time_since_epoch().count());
}

OverlayAt place(const LaneGroup& group, std::uint32_t op) {
  return {group.track / 2, static_cast<int>(group.track % 2), op};
}

// "forecast  rank 0 ×4", "run  rank 2".
QString label_of(const LaneGroup& group, bool forecast) {
  QString label =
      (forecast ? OverlayView::tr("forecast  rank %1") : OverlayView::tr("run  rank %1"))
          .arg(group.rank.value);
  if (group.represents > 1) label += QString{" ×%1"}.arg(group.represents);
  return label;
}

std::uint32_t group_of(const OverlayAt& at) {
  return static_cast<std::uint32_t>(2 * at.pair) + static_cast<std::uint32_t>(at.side);
}

}  // namespace

OverlayView::OverlayView(QWidget* parent) : QWidget{parent} {
  setFocusPolicy(Qt::StrongFocus);
  setMouseTracking(true);
  setMinimumSize(360, 140);
  setAccessibleName(tr("Forecast above the recorded run"));
}

void OverlayView::set_overlay(OverlayPtr overlay) {
  overlay_ = std::move(overlay);
  selected_.reset();
  // A trace shows every kernel, overlapping ones in lanes of their own.
  open_.assign(overlay_ ? overlay_->shown : 0, overlay_ && overlay_->traced);
  remake_rows();
  align_steps();
  fit();
  Q_EMIT selection_changed();
}

void OverlayView::set_empty_text(const QString& text) {
  empty_text_ = text;
  update();
}

// As of a timeline; the two sides of a pair are close together, and say whose they are.
void OverlayView::remake_rows() {
  rows_.clear();
  if (!overlay_) return;
  int y = 0;
  for (std::size_t pair = 0; pair < overlay_->shown; ++pair)
    for (const std::size_t side : {0U, 1U}) {
      const LaneGroup& group = overlay_->lanes.groups[2 * pair + side];
      for (Row& row : rows_of(group, open_[pair])) {
        if (row.head) row.label = label_of(group, side == 0);
        row.y = y;
        y += row.height;
        rows_.push_back(std::move(row));
      }
      y += side == 0 ? 2 : pair_gap;
    }
  set_scroll(scroll_);
}

Canvas OverlayView::canvas(int side) const {
  const QRect area{gutter, axis_height, std::max(1, width() - gutter),
                   std::max(1, height() - axis_height)};
  if (side == 0) return {area, window_, scroll_};
  return {area, {map_.time(window_.from), map_.time(window_.to)}, scroll_};
}

double OverlayView::shown_end() const {
  return std::max(ps(overlay_->forecast->end), map_.shown(ps(overlay_->run->end)));
}

double OverlayView::shown_time(const OverlayAt& at) const {
  const double time = ps(overlay_->span(at).active);
  return at.side == 0 ? time : map_.shown(time);
}

void OverlayView::align_steps() {
  if (!overlay_) return;
  const double run = ps(overlay_->run->end);
  map_ = {0, stretched_ && run > 0 ? ps(overlay_->forecast->end) / run : 1};
  fit();
}

void OverlayView::stretch(bool stretched) {
  stretched_ = stretched;
  align_steps();
}

void OverlayView::align_selected() {
  if (!overlay_ || !selected_) return;
  const std::optional<OverlayAt> other = overlay_->other(*selected_);
  if (!other) return;
  const OverlayAt& run = selected_->side == 1 ? *selected_ : *other;
  const OverlayAt& forecast = selected_->side == 1 ? *other : *selected_;
  map_.offset += shown_time(forecast) - shown_time(run);
  reveal(forecast);
  update();
}

void OverlayView::set_window(TimeWindow window) {
  if (!overlay_) return;
  const double first = std::min(0.0, map_.offset);
  const double length = std::clamp(window.length(), shortest_window, shown_end() - first);
  window.from = std::clamp(window.from, first, shown_end() - length);
  window.to = window.from + length;
  window_ = window;
  update();
}

void OverlayView::fit() {
  if (overlay_) set_window({std::min(0.0, map_.offset), shown_end()});
}

void OverlayView::zoom(double factor, std::optional<double> at) {
  const double fixed = at.value_or((window_.from + window_.to) / 2);
  const double share = (fixed - window_.from) / window_.length();
  const double length = std::max(shortest_window, window_.length() * factor);
  set_window({fixed - share * length, fixed + (1 - share) * length});
}

void OverlayView::pan(double share) {
  const double by = window_.length() * share;
  set_window({window_.from + by, window_.to + by});
}

void OverlayView::set_scroll(int scroll) {
  const int all = rows_.empty() ? 0 : rows_.back().y + rows_.back().height + pair_gap;
  scroll_ = std::clamp(scroll, 0, std::max(0, all - canvas(0).area.height()));
  update();
}

void OverlayView::toggle_streams(std::size_t pair) {
  if (pair >= open_.size()) return;
  open_[pair] = !open_[pair];
  remake_rows();
}

void OverlayView::select(std::optional<OverlayAt> at, bool show) {
  if (at == selected_) return;
  selected_ = at;
  if (at && show) reveal(*at);
  setAccessibleDescription(at ? text_of(*at) : QString{});
  update();
  Q_EMIT selection_changed();
}

void OverlayView::reveal(const OverlayAt& at) {
  const sim::Span& span = overlay_->span(at);
  const double begin = shown_time(at);
  const double end = at.side == 0 ? ps(span.end) : map_.shown(ps(span.end));
  if (begin < window_.from || end > window_.to) {
    const double length = std::max(window_.length(), (end - begin) * 1.2);
    set_window({(begin + end - length) / 2, (begin + end + length) / 2});
  }
  const StripAt found = find_operator(rows_, {group_of(at), at.op});
  if (!found.row) return;
  if (found.row->y < scroll_) set_scroll(found.row->y - pair_gap);
  const int room = canvas(0).area.height();
  if (found.row->y + found.row->height > scroll_ + room)
    set_scroll(found.row->y + found.row->height - room + pair_gap);
}

void OverlayView::step(bool forward) {
  if (!overlay_ || rows_.empty()) return;
  if (!selected_) {
    for (const Row& row : rows_)
      if (row.computes && row.strips.front()->size() > 0)
        return select(place(*row.group, row.strips.front()->op.front()), true);
    return;
  }
  const StripAt at = find_operator(rows_, {group_of(*selected_), selected_->op});
  if (!at.strip || (forward ? at.span + 1 >= at.strip->size() : at.span == 0)) return;
  select(place(*at.row->group, at.strip->op[forward ? at.span + 1 : at.span - 1]), true);
}

QString OverlayView::text_of(const OverlayAt& at) const {
  const auto time = [&](const OverlayAt& of) {
    const sim::Span& span = overlay_->span(of);
    return QString::fromStdString(sim::precise(span.end - span.active));
  };
  const sim::Program& program = overlay_->program(at);
  const sim::OpId op{at.op};
  const QString name = operator_name(program, op) + operator_place(program, op);
  const std::optional<OverlayAt> other = overlay_->other(at);
  if (!other)
    return name + (at.side == 0 ? tr(": forecast %1, not in the run").arg(time(at))
                                : tr(": measured %1, not in the forecast").arg(time(at)));
  return name + tr(": forecast %1, measured %2")
                    .arg(time(at.side == 0 ? at : *other), time(at.side == 1 ? at : *other));
}

std::optional<OverlayAt> OverlayView::operator_at(QPoint at) const {
  const Row* row = row_at(rows_, canvas(0), at);
  if (!row || at.x() < gutter) return std::nullopt;
  const Canvas of_side = canvas(static_cast<int>(row->group->track % 2));
  const std::optional<OperatorAt> near = operator_near(*row, of_side, at.x());
  return near ? std::optional{place(*row->group, near->op)} : std::nullopt;
}

void OverlayView::paintEvent(QPaintEvent*) {
  QPainter painter{this};
  const Theme& theme = theme_of(*this);
  painter.fillRect(rect(), theme.ground);
  if (!overlay_) {
    painter.setPen(theme.muted);
    painter.drawText(rect().adjusted(40, 0, -40, 0), Qt::AlignCenter | Qt::TextWordWrap,
                     empty_text_);
    return;
  }
  const Canvas now = canvas(0);
  const Canvas of_run = canvas(1);
  std::array draws{TimelinePainter{painter, theme, now}, TimelinePainter{painter, theme, of_run}};
  draws[0].axis(QRect{gutter, 0, width() - gutter, axis_height});
  painter.setClipRect(now.area);
  for (const Row& row : rows_)
    if (now.shows(row)) draws[row.group->track % 2].row(row);
  paint_selected(painter);
  painter.setClipping(false);
  paint_gutter(painter);
  if (hasFocus()) {
    painter.setPen(QPen{theme.accent, 1});
    painter.drawRect(rect().adjusted(0, 0, -1, -1));
  }
}

void OverlayView::paint_selected(QPainter& painter) {
  if (!selected_) return;
  const Theme& theme = theme_of(*this);
  const auto mark = [&](const OverlayAt& at) {
    TimelinePainter{painter, theme, canvas(at.side)}.selected(rows_, {group_of(at), at.op});
  };
  mark(*selected_);
  if (const std::optional<OverlayAt> other = overlay_->other(*selected_)) mark(*other);
}

void OverlayView::paint_gutter(QPainter& painter) {
  const Theme& theme = theme_of(*this);
  const Canvas now = canvas(0);
  painter.fillRect(QRect{0, 0, gutter - 4, height()}, theme.panel);
  painter.setClipRect(QRect{0, now.area.top(), gutter - 4, now.area.height()});
  for (const Row& row : rows_) {
    if (row.label.isEmpty() || !now.shows(row)) continue;
    const std::uint32_t pair = row.group->track / 2;
    const bool of_forecast = row.group->track % 2 == 0;
    paint_label(painter, theme, now, row, gutter - 28,
                of_forecast ? std::optional<bool>{open_[pair]} : std::nullopt);
  }
  painter.setClipping(false);
}

void OverlayView::resizeEvent(QResizeEvent*) {
  set_scroll(scroll_);
}

void OverlayView::wheelEvent(QWheelEvent* event) {
  const WheelTurn turn = wheel_turn(*event);
  if (turn.zoom)
    zoom(*turn.zoom, canvas(0).time_at(event->position().x()));
  else if (turn.pan)
    pan(*turn.pan);
  else
    set_scroll(scroll_ + turn.scroll);
  event->accept();
}

void OverlayView::mousePressEvent(QMouseEvent* event) {
  if (!overlay_) return;
  pressed_ = event->pos();
  pressed_window_ = window_;
  dragged_ = false;
}

void OverlayView::mouseMoveEvent(QMouseEvent* event) {
  if (!overlay_ || !pressed_ || pressed_->x() < gutter) return;
  const int moved = event->pos().x() - pressed_->x();
  if (!dragged_ && std::abs(moved) < least_drag) return;
  dragged_ = true;
  const double by = moved * pressed_window_.length() / canvas(0).area.width();
  set_window({pressed_window_.from - by, pressed_window_.to - by});
}

void OverlayView::mouseReleaseEvent(QMouseEvent* event) {
  if (!overlay_ || !pressed_) return;
  const bool clicked = !dragged_;
  pressed_.reset();
  if (!clicked) return;
  if (event->pos().x() < gutter) {
    if (const Row* row = row_at(rows_, canvas(0), event->pos()))
      toggle_streams(row->group->track / 2);
    return;
  }
  select(operator_at(event->pos()));
}

void OverlayView::mouseDoubleClickEvent(QMouseEvent* event) {
  if (overlay_ && event->pos().x() >= gutter) align_selected();
}

void OverlayView::keyPressEvent(QKeyEvent* event) {
  if (!overlay_) return QWidget::keyPressEvent(event);
  switch (event->key()) {
    case Qt::Key_W:
      return zoom(0.7);
    case Qt::Key_S:
      return zoom(1 / 0.7);
    case Qt::Key_A:
    case Qt::Key_Left:
      return pan(-0.2);
    case Qt::Key_D:
    case Qt::Key_Right:
      return pan(0.2);
    case Qt::Key_Up:
      return set_scroll(scroll_ - 30);
    case Qt::Key_Down:
      return set_scroll(scroll_ + 30);
    case Qt::Key_Period:
      return step(true);
    case Qt::Key_Comma:
      return step(false);
    case Qt::Key_Home:
      return fit();
    case Qt::Key_F:
      if (selected_) reveal(*selected_);
      return;
    case Qt::Key_X:  // across: the same operator of the other side
      if (selected_)
        if (const auto other = overlay_->other(*selected_)) select(other, true);
      return;
    case Qt::Key_Return:
    case Qt::Key_Enter:
      return toggle_streams(selected_ ? selected_->pair : 0);
    case Qt::Key_Escape:
      return select(std::nullopt);
    default:
      QWidget::keyPressEvent(event);
  }
}

bool OverlayView::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip || !overlay_) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  const std::optional<OverlayAt> at = operator_at(help->pos());
  if (at)
    QToolTip::showText(help->globalPos(), text_of(*at), this);
  else
    QToolTip::hideText();
  return true;
}

}  // namespace ui
