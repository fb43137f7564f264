#include "ui/validate/overlay_view.hpp"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
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
constexpr int least_drag = 4;  // px

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

OverlayView::OverlayView(QWidget* parent)
    : LaneCanvas{{gutter, axis_height, 0, pair_gap, pair_gap}, parent} {
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

Canvas OverlayView::canvas_of(int side) const {
  Canvas now = canvas();
  if (side == 1) now.window = {map_.time(window_.from), map_.time(window_.to)};
  return now;
}

std::optional<TimeWindow> OverlayView::all() const {
  if (!overlay_) return std::nullopt;
  return TimeWindow{std::min(0.0, map_.offset), shown_end()};
}

std::optional<bool> OverlayView::opened(const Row& row) const {
  const bool of_forecast = row.group->track % 2 == 0;
  return of_forecast ? std::optional<bool>{open_[row.group->track / 2]} : std::nullopt;
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
  show_operator(forecast);
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
  if (at && show) show_operator(*at);
  setAccessibleDescription(at ? text_of(*at) : QString{});
  update();
  Q_EMIT selection_changed();
}

double OverlayView::shown_end_of(const OverlayAt& at) const {
  const double end = ps(overlay_->span(at).end);
  return at.side == 0 ? end : map_.shown(end);
}

void OverlayView::show_operator(const OverlayAt& at) {
  reveal({shown_time(at), shown_end_of(at)}, find_operator(rows_, {group_of(at), at.op}).row);
}

void OverlayView::close_up(const OverlayAt& at) {
  constexpr double speck = 0.04, wanted = 0.2;  // of the window
  if (!overlay_) return;
  select(at);
  align_selected();
  double to = shown_end_of(at);
  if (const std::optional<OverlayAt> other = overlay_->other(at))
    to = std::max(to, shown_end_of(*other));
  const double length = std::max(to - shown_time(at), 1.0) / wanted;
  if (length * wanted < speck * window_.length())
    set_window({shown_time(at) - length * wanted, shown_time(at) + length * (1 - wanted)});
  show_operator(at);
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
  const Row* row = row_at(rows_, canvas(), at);
  if (!row || at.x() < gutter) return std::nullopt;
  const Canvas of_side = canvas_of(static_cast<int>(row->group->track % 2));
  const std::optional<OperatorAt> near = operator_near(*row, of_side, at.x());
  return near ? std::optional{place(*row->group, near->op)} : std::nullopt;
}

void OverlayView::paintEvent(QPaintEvent*) {
  QPainter painter{this};
  const Theme& theme = theme_of(*this);
  painter.fillRect(rect(), theme.ground);
  if (!overlay_) return paint_empty(painter, empty_text_);
  const Canvas now = canvas();
  const Canvas of_run = canvas_of(1);
  std::array draws{TimelinePainter{painter, theme, now}, TimelinePainter{painter, theme, of_run}};
  draws[0].axis(QRect{gutter, 0, width() - gutter, axis_height});
  painter.setClipRect(now.area);
  for (const Row& row : rows_)
    if (now.shows(row)) draws[row.group->track % 2].row(row);
  paint_selected(painter);
  painter.setClipping(false);
  paint_labels(painter, now);
  paint_focus(painter);
}

void OverlayView::paint_selected(QPainter& painter) {
  if (!selected_) return;
  const Theme& theme = theme_of(*this);
  const auto mark = [&](const OverlayAt& at) {
    TimelinePainter{painter, theme, canvas_of(at.side)}.selected(rows_, {group_of(at), at.op});
  };
  mark(*selected_);
  if (const std::optional<OverlayAt> other = overlay_->other(*selected_)) mark(*other);
}

void OverlayView::resizeEvent(QResizeEvent*) {
  set_scroll(scroll_);
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
  drag_window(moved);
}

void OverlayView::mouseReleaseEvent(QMouseEvent* event) {
  if (!overlay_ || !pressed_) return;
  const bool clicked = !dragged_;
  pressed_.reset();
  if (!clicked) return;
  if (event->pos().x() < gutter) {
    if (const Row* row = row_at(rows_, canvas(), event->pos()))
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
  if (take_key(event->key())) return;
  switch (event->key()) {
    case Qt::Key_Left:
      return pan(-0.2);
    case Qt::Key_Right:
      return pan(0.2);
    case Qt::Key_Period:
      return step(true);
    case Qt::Key_Comma:
      return step(false);
    case Qt::Key_F:
      if (selected_) show_operator(*selected_);
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

QString OverlayView::text_at(QPoint place) const {
  const std::optional<OverlayAt> at = operator_at(place);
  return at ? text_of(*at) : QString{};
}

}  // namespace ui
