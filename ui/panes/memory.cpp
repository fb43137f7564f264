#include "ui/panes/memory.hpp"

#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>
#include <cmath>

#include "ui/core/theme.hpp"
#include "ui/core/words.hpp"
#include "ui/panes/stacked_chart.hpp"

namespace ui {
namespace {

constexpr int legend_width = 190;
constexpr int memory_left_axis =
    132;  // as wide as the timeline's gutter, so that both have one time axis
constexpr double mib_per_gib = 1024;

}  // namespace

MemoryPane::MemoryPane(Session& session, QWidget* parent) : QWidget{parent}, session_{session} {
  setFocusPolicy(Qt::StrongFocus);
  setMinimumHeight(120);
  setAccessibleName(tr("Memory over time"));
  connect(&session_, &Session::result_changed, this, qOverload<>(&QWidget::update));
  connect(&session_, &Session::selection_changed, this, qOverload<>(&QWidget::update));
}

void MemoryPane::set_window(const TimeWindow& window) {
  window_ = window;
  update();
}

QColor MemoryPane::colour_of(std::size_t category) const {
  return theme_of(*this).memory[category];
}

MemoryPane::Places MemoryPane::places() const {
  const int bottom = height() - 6;
  const int legend_left = width() - legend_width;
  return {QRect{8, 10, memory_left_axis - 16, bottom - 10},
          QRect{memory_left_axis, 10, legend_left - memory_left_axis - 12, bottom - 10},
          QRect{legend_left, 6, legend_width - 6, bottom - 6}};
}

void MemoryPane::load() {
  const ResultPtr& result = session_.result();
  if (shown_ == result && stage_ == session_.selection().stage) return;
  shown_ = result;
  stage_ = session_.selection().stage;
  series_ = {};
  used_.clear();
  for (const LaneGroup& group : result->lanes.groups) {
    if (group.stage != stage_) continue;
    series_ = sim::memory_over_time(result->forecast.timeline.tracks[group.track],
                                    result->forecast.plan->program(group.rank));
    break;
  }
  used_ = used_values(series_);
  const sim::StageMemory& memory = result->forecast.report.memory[static_cast<std::size_t>(stage_)];
  setAccessibleDescription(tr("stage %1: %2 of %3 GiB at the peak")
                               .arg(stage_)
                               .arg(memory.total.gib(), 0, 'f', 1)
                               .arg(memory.capacity.gib(), 0, 'f', 1));
}

void MemoryPane::paintEvent(QPaintEvent*) {
  QPainter painter{this};
  const Theme& theme = theme_of(*this);
  painter.fillRect(rect(), theme.ground);
  if (!session_.result() || session_.result()->forecast.report.memory.empty()) {
    painter.setPen(theme.muted);
    painter.drawText(rect(), Qt::AlignCenter,
                     tr("Memory over time appears with the first forecast."));
    return;
  }
  load();
  const Places at = places();
  paint_bars(painter, at.bars);
  paint_chart(painter, at.chart);
  paint_legend(painter, at.legend);
}

void MemoryPane::paint_bars(QPainter& painter, const QRect& area) {
  const Theme& theme = theme_of(*this);
  const auto& memory = shown_->forecast.report.memory;
  double most = 0;
  for (const sim::StageMemory& stage : memory)
    most = std::max({most, stage.total.gib(), stage.capacity.gib()});
  const double step = area.width() / static_cast<double>(memory.size());
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const double height = memory[i].total.gib() / most * area.height();
    const QRectF bar{area.left() + static_cast<double>(i) * step, area.bottom() - height,
                     std::max(1.0, step - 1), height};
    QColor colour = memory[i].fits() ? theme.accent : theme.bad;
    if (static_cast<int>(i) != stage_) colour.setAlpha(110);
    painter.fillRect(bar, colour);
  }
  const double line = area.bottom() - memory.front().capacity.gib() / most * area.height();
  painter.setPen(QPen{theme.text, 1, Qt::DashLine});
  painter.drawLine(QPointF{static_cast<double>(area.left()), line},
                   QPointF{static_cast<double>(area.right()), line});
}

void MemoryPane::paint_chart(QPainter& painter, const QRect& area) {
  const Theme& theme = theme_of(*this);
  const sim::StageMemory& memory = shown_->forecast.report.memory[static_cast<std::size_t>(stage_)];
  const double reserved = (memory.reserved + memory.fragments).gib();
  const double top = 1.06 * std::max(memory.capacity.gib(), memory.total.gib());
  const auto y_of = [&](double gib) { return area.bottom() - gib / top * area.height(); };
  painter.fillRect(area, theme.panel);
  const TimeWindow window =
      window_.length() > 1 ? window_ : TimeWindow{0, static_cast<double>(shown_->lanes.end)};
  painter.fillRect(
      QRectF{QPointF{area.bottomLeft()}, QPointF{area.right() + 1.0, y_of(reserved)}}.normalized(),
      theme.muted);
  StackedChart{series_, window, mib_per_gib, reserved, top}.paint(
      painter, area, used_, [this](std::size_t category) { return colour_of(category); });
  painter.setPen(QPen{theme.bad, 1, Qt::DashLine});
  const double line = y_of(memory.capacity.gib());
  painter.drawLine(QPointF{static_cast<double>(area.left()), line},
                   QPointF{static_cast<double>(area.right()), line});
  painter.setPen(theme.text);
  const QString text = tr("device %1 GiB").arg(memory.capacity.gib(), 0, 'f', 1);
  const QRectF box{area.right() - painter.fontMetrics().horizontalAdvance(text) - 12.0, line + 2,
                   painter.fontMetrics().horizontalAdvance(text) + 10.0, 16};
  painter.fillRect(box, theme.ground);
  painter.drawText(box, Qt::AlignCenter, text);
}

void MemoryPane::paint_legend(QPainter& painter, const QRect& area) {
  const Theme& theme = theme_of(*this);
  const sim::StageMemory& memory = shown_->forecast.report.memory[static_cast<std::size_t>(stage_)];
  const int line = painter.fontMetrics().height() + 1;
  int y = area.top();
  painter.setPen(theme.text);
  QFont bold = painter.font();
  bold.setBold(true);
  painter.save();
  painter.setFont(bold);
  painter.drawText(QRect{area.left(), y, area.width(), line}, Qt::AlignLeft,
                   tr("stage %1: %2 GiB").arg(stage_).arg(memory.total.gib(), 0, 'f', 1));
  painter.restore();
  y += line + 2;
  struct Entry {
    QString name;
    double gib;
    QColor colour;
  };
  std::vector<Entry> entries{
      {tr("device's own"), (memory.reserved + memory.fragments).gib(), theme.muted}};
  for (const std::size_t category : used_)
    entries.push_back(
        {spaced(series_.names[category]), memory.use.at_peak[category].gib(), colour_of(category)});
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.gib > b.gib; });
  for (const Entry& entry : entries) {
    if (y + line > area.bottom()) break;
    painter.fillRect(QRect{area.left(), y + 3, 9, 9}, entry.colour);
    painter.setPen(theme.text);
    painter.drawText(QRect{area.left() + 15, y, area.width() - 70, line}, Qt::AlignLeft,
                     entry.name);
    painter.drawText(QRect{area.right() - 56, y, 54, line}, Qt::AlignRight,
                     QString::number(entry.gib, 'f', 2));
    y += line;
  }
}

void MemoryPane::choose_stage(int stage) {
  if (!session_.result()) return;
  const int stages = static_cast<int>(session_.result()->forecast.report.memory.size());
  Selection selection = session_.selection();
  selection.stage = std::clamp(stage, 0, stages - 1);
  session_.select(selection);
}

void MemoryPane::mousePressEvent(QMouseEvent* event) {
  const QRect bars = places().bars;
  if (!session_.result() || !bars.contains(event->pos())) return;
  const auto stages = static_cast<int>(session_.result()->forecast.report.memory.size());
  choose_stage((event->pos().x() - bars.left()) * stages / std::max(1, bars.width()));
}

void MemoryPane::keyPressEvent(QKeyEvent* event) {
  if (event->key() == Qt::Key_Left) return choose_stage(session_.selection().stage - 1);
  if (event->key() == Qt::Key_Right) return choose_stage(session_.selection().stage + 1);
  QWidget::keyPressEvent(event);
}

bool MemoryPane::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip || !shown_) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  QToolTip::showText(
      help->globalPos(),
      places().bars.contains(help->pos())
          ? tr("Memory of each pipeline stage; a click shows that stage over time.")
          : tr("A buffer lives from the begin of the operator that first writes it to the end of "
               "the "
               "one that frees it. The peak in the legend follows the order of issue, as an "
               "allocator does: it can lie above this curve."),
      this);
  return true;
}

}  // namespace ui
