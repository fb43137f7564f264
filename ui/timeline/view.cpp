#include "ui/timeline/view.hpp"

#include <QPainter>
#include <algorithm>
#include <cmath>

#include "ui/core/operator_text.hpp"
#include "ui/timeline/pointer.hpp"

namespace ui {
namespace {

// The selected operator, else the first one that is shown.
std::optional<OperatorAt> anchor(const Session& session, const std::vector<Row>& rows) {
  if (session.selection().op) return session.selection().op;
  for (const Row& row : rows)
    for (const Strip* strip : row.strips)
      if (strip->size() > 0) return OperatorAt{row.group->track, strip->op.front()};
  return std::nullopt;
}

}  // namespace

TimelineView::TimelineView(Session& session, QWidget* parent)
    : LaneCanvas{{gutter, overview_height + axis_height, overview_height, group_gap, group_gap / 2},
                 parent},
      session_{session} {
  setMinimumSize(360, 160);
  setAccessibleName(tr("Timeline"));
  connect(&session_, &Session::result_changed, this, &TimelineView::adopt_result);
  connect(&session_, &Session::opened, this, [this] { whole_ = true; });
  connect(&session_, &Session::selection_changed, this, [this] {
    describe();
    update();
  });
  adopt_result();
}

void TimelineView::adopt_result() {
  shown_ = session_.result();
  if (!shown_) return;
  if (whole_ || window_.from >= static_cast<double>(shown_->lanes.end))
    window_ = {0, static_cast<double>(shown_->lanes.end)};
  remake_rows();
  search(pattern_.pattern());
  describe();
  Q_EMIT window_changed();
}

void TimelineView::remake_rows() {
  rows_ = shown_ ? make_rows(shown_->lanes, choice_, canvas().area.height()) : std::vector<Row>{};
  set_scroll(scroll_);
  update();
}

std::optional<TimeWindow> TimelineView::all() const {
  if (!shown_) return std::nullopt;
  return TimeWindow{0, static_cast<double>(shown_->lanes.end)};
}

void TimelineView::fit_selected() {
  const Selection& selection = session_.selection();
  if (!selection.op && selection.area) {
    set_window(
        {static_cast<double>(selection.area->begin), static_cast<double>(selection.area->end)});
    return;
  }
  const StripAt at = selection.op ? find_operator(rows_, *selection.op) : StripAt{};
  if (!at.strip) return fit();
  const double begin = static_cast<double>(at.strip->begin[at.span]);
  const double end = static_cast<double>(at.strip->end[at.span]);
  const double margin = (end - begin) * 4;
  set_window({begin - margin, end + margin});
  show_operator(*selection.op);
}

void TimelineView::fit_in_turn() {
  const TimeWindow before = window_;
  fit_selected();
  if (window_.from == before.from && window_.to == before.to) fit();
}

void TimelineView::toggle_stage(int stage) {
  if (!choice_.expanded.erase(stage)) choice_.expanded.insert(stage);
  remake_rows();
}

void TimelineView::toggle_pin(int stage) {
  if (!choice_.pinned.erase(stage)) choice_.pinned.insert(stage);
  remake_rows();
}

bool TimelineView::filter_lanes(const QString& pattern) {
  choice_.filter = QRegularExpression{pattern, QRegularExpression::CaseInsensitiveOption};
  remake_rows();
  return choice_.filter.isValid();
}

void TimelineView::show_critical_path(bool shown) {
  path_shown_ = shown;
  update();
}

bool TimelineView::search(const QString& pattern) {
  pattern_ = QRegularExpression{pattern, QRegularExpression::CaseInsensitiveOption};
  marked_.clear();
  update();
  if (!pattern_.isValid()) return false;
  if (pattern.isEmpty() || !shown_) return true;
  for (const LaneGroup& group : shown_->lanes.groups) {
    std::vector<bool> names;
    for (const std::string& name : shown_->forecast.plan->program(group.rank).names)
      names.push_back(pattern_.match(QString::fromStdString(name)).hasMatch());
    marked_.push_back(std::move(names));
  }
  return true;
}

bool TimelineView::marked(const OperatorAt& at) const {
  for (std::size_t i = 0; i < marked_.size(); ++i) {
    const LaneGroup& group = shown_->lanes.groups[i];
    if (group.track == at.track)
      return marked_[i][shown_->forecast.plan->program(group.rank).label[at.op].name];
  }
  return false;
}

void TimelineView::step_match(bool forward) {
  const std::optional<OperatorAt> start = anchor(session_, rows_);
  if (!start || marked_.empty()) return;
  const auto size =
      static_cast<std::uint32_t>(shown_->forecast.timeline.tracks[start->track].spans.size());
  for (std::uint32_t n = 1; n <= size; ++n) {
    const std::uint32_t op = (start->op + (forward ? n : size - n)) % size;
    if (marked({start->track, op})) return select_operator({start->track, op}, true);
  }
}

void TimelineView::step_operator(bool forward) {
  const std::optional<OperatorAt> start = anchor(session_, rows_);
  if (!start) return;
  const StripAt at = find_operator(rows_, *start);
  if (!at.strip) return;
  if (!session_.selection().op) return select_operator(*start, true);
  if (forward ? at.span + 1 >= at.strip->size() : at.span == 0) return;
  select_operator({start->track, at.strip->op[forward ? at.span + 1 : at.span - 1]}, true);
}

void TimelineView::step_path(bool forward) {
  if (!shown_ || shown_->critical_path.empty()) return;
  const auto& path = shown_->critical_path;
  const auto& op = session_.selection().op;
  std::ptrdiff_t at = forward ? -1 : static_cast<std::ptrdiff_t>(path.size());
  if (op) {
    const auto found = std::find_if(path.begin(), path.end(), [&](const sim::PathStep& step) {
      return step.track == op->track && step.op.value == op->op && !step.idle;
    });
    if (found != path.end()) {
      at = found - path.begin();
    } else {  // the step of the path at that time
      const auto begin = shown_->forecast.timeline.tracks[op->track].spans[op->op].active;
      at = std::lower_bound(
               path.begin(), path.end(), begin,
               [](const sim::PathStep& step, sim::TimePoint time) { return step.begin < time; }) -
           path.begin() - (forward ? 1 : 0);
    }
  }
  do {
    at += forward ? 1 : -1;
  } while (at >= 0 && at < std::ssize(path) && path[static_cast<std::size_t>(at)].idle);
  if (at < 0 || at >= std::ssize(path)) return;
  const sim::PathStep& step = path[static_cast<std::size_t>(at)];
  select_operator({step.track, step.op.value}, true);
}

void TimelineView::select_operator(const OperatorAt& at, bool show) {
  Selection selection = session_.selection();
  selection.op = at;
  selection.area.reset();
  selection.stage =
      shown_->forecast.plan->program(shown_->forecast.timeline.tracks[at.track].rank).stage;
  session_.select(selection);
  if (show) show_operator(at);
}

void TimelineView::show_operator(const OperatorAt& at) {
  const StripAt found = find_operator(rows_, at);
  if (!found.row) return;
  reveal({static_cast<double>(found.strip->begin[found.span]),
          static_cast<double>(found.strip->end[found.span])},
         found.row);
}

std::optional<OperatorAt> TimelineView::operator_at(QPoint at) const {
  const Canvas now = canvas();
  const Row* row = row_at(rows_, now, at);
  if (!row || at.x() < gutter) return std::nullopt;
  return operator_near(*row, now, at.x());
}

void TimelineView::paintEvent(QPaintEvent*) {
  QPainter painter{this};
  const Theme& theme = theme_of(*this);
  painter.fillRect(rect(), theme.ground);
  if (!shown_)
    return paint_empty(
        painter,
        session_.path().empty()
            ? tr("Open a scenario to see its step: File, Open (Ctrl+O), or drop a file here.")
            : tr("Computing the step …"));
  const Canvas now = canvas();
  TimelinePainter draw{painter, theme, now};
  draw.axis(QRect{gutter, overview_height, now.area.width(), axis_height});
  if (rows_.empty()) {
    painter.setPen(theme.muted);
    painter.drawText(now.area, Qt::AlignCenter,
                     tr("No lane is named like '%1'. Escape in the field above shows all of them.")
                         .arg(choice_.filter.pattern()));
  }
  paint_rows(painter, now, false);
  paint_rows(painter, now, true);
  painter.setClipRect(now.area);
  paint_area(painter, now);
  painter.setClipping(false);
  paint_labels(painter, now);
  paint_pins(painter, now);
  paint_overview(painter);
  paint_focus(painter);
}

// Those that are pinned, or the others, with what is drawn over them.
void TimelineView::paint_rows(QPainter& painter, const Canvas& now, bool pinned) {
  if (pinned && now.pinned == 0) return;
  const Theme& theme = theme_of(*this);
  TimelinePainter draw{painter, theme, now};
  painter.setClipRect(now.part(pinned));
  for (const Row& row : rows_) {
    if (row.pinned != pinned || !now.shows(row)) continue;
    draw.row(row);
    for (std::size_t i = 0; i < marked_.size(); ++i)
      if (&shown_->lanes.groups[i] == row.group) draw.matches(row, marked_[i]);
  }
  if (path_shown_) draw.critical_path(rows_, shown_->critical_path);
  if (session_.selection().op) draw.selected(rows_, *session_.selection().op);
}

// The mark of the lanes that do not scroll.
void TimelineView::paint_pins(QPainter& painter, const Canvas& now) {
  const Theme& theme = theme_of(*this);
  if (now.pinned == 0) return;
  painter.fillRect(QRect{0, now.area.top() + 2, 3, now.pinned - 4}, theme.accent);
  painter.setPen(theme.accent);
  painter.drawLine(0, now.area.top() + now.pinned - 1, width(), now.area.top() + now.pinned - 1);
}

void TimelineView::paint_overview(QPainter& painter) {
  const Theme& theme = theme_of(*this);
  painter.fillRect(QRect{0, 0, width(), overview_height}, theme.panel);
  const TimeWindow all{0, static_cast<double>(shown_->lanes.end)};
  const Canvas whole{QRect{gutter, 3, width() - gutter, overview_height - 6}, all, 0};
  // The first stage stands for the step.
  if (!shown_->lanes.groups.empty()) {
    Row row{&shown_->lanes.groups.front(),
            {&shown_->lanes.groups.front().compute},
            {},
            0,
            overview_height - 8,
            true};
    TimelinePainter{painter, theme, whole}.row(row);
  }
  painter.setPen(theme.muted);
  painter.drawText(QRect{8, 0, gutter - 12, overview_height}, Qt::AlignVCenter, tr("whole step"));
  const double left = whole.x_of(window_.from);
  const double right = whole.x_of(window_.to);
  painter.setPen(QPen{theme.accent, 2});
  painter.drawRect(QRectF{left + 1, 2, std::max(3.0, right - left - 2), overview_height - 5.0});
}

void TimelineView::paint_area(QPainter& painter, const Canvas& now) {
  const auto& area = session_.selection().area;
  if (!area) return;
  const Theme& theme = theme_of(*this);
  const double left = now.x_of(static_cast<double>(area->begin));
  const double right = now.x_of(static_cast<double>(area->end));
  QColor fill = theme.accent;
  fill.setAlpha(40);
  const QRectF box{left, static_cast<double>(now.area.top()), std::max(1.0, right - left),
                   static_cast<double>(now.area.height())};
  painter.fillRect(box, fill);
  painter.setPen(theme.accent);
  painter.drawRect(box);
  const QString text = time_text(static_cast<double>(area->end - area->begin),
                                 static_cast<double>(area->end - area->begin));
  painter.fillRect(QRectF{left, box.top(), painter.fontMetrics().horizontalAdvance(text) + 8.0, 18},
                   theme.accent);
  painter.setPen(text_on(theme.accent));
  painter.drawText(QPointF{left + 4, box.top() + 13}, text);
}

void TimelineView::resizeEvent(QResizeEvent*) {
  remake_rows();
}

void TimelineView::describe() {
  if (!shown_) return;
  const auto& op = session_.selection().op;
  setAccessibleDescription(
      op ? operator_line(*shown_, *op)
         : tr("%1 ranks, %2 operators").arg(shown_->lanes.groups.size()).arg(shown_->lanes.spans));
}

}  // namespace ui
