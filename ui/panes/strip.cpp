#include "ui/panes/strip.hpp"

#include <QHelpEvent>
#include <QPainter>
#include <QToolTip>

#include "sim/report/numbers.hpp"
#include "ui/core/figures.hpp"
#include "ui/core/theme.hpp"
#include "ui/core/words.hpp"

namespace ui {
namespace {

constexpr int label_width = 92;
constexpr int bar_height = 20;
constexpr int margin = 12;

QString title_of(std::size_t part) {
  return to_qstring(sim::breakdown_fields[part].title);
}

sim::Duration part_of(const sim::Report& report, std::size_t part) {
  return report.breakdown.*sim::breakdown_fields[part].member;
}

QString share_text(const sim::Report& report, std::size_t part) {
  const double share = sim::in_seconds(part_of(report, part)) / sim::in_seconds(report.step_time);
  return QString{"%1 %2 %"}.arg(title_of(part)).arg(100 * share, 0, 'f', 1);
}

}  // namespace

BreakdownStrip::BreakdownStrip(Session& session, QWidget* parent)
    : QWidget{parent}, session_{session} {
  setFixedHeight(sizeHint().height());
  setAccessibleName(tr("Parts of the step"));
  const auto refresh = [this] {
    describe();
    update();
  };
  connect(&session_, &Session::result_changed, this, refresh);
  connect(&session_, &Session::baseline_changed, this, refresh);
}

QRect BreakdownStrip::bar(int index) const {
  return {margin + label_width, 4 + index * (bar_height + 4), width() - 2 * margin - label_width,
          bar_height};
}

void BreakdownStrip::paintEvent(QPaintEvent*) {
  if (!session_.result()) return;
  QPainter painter{this};
  const Theme& theme = theme_of(*this);
  const sim::Report& now = session_.result()->forecast.report;
  const sim::Report* base = session_.baseline() ? &session_.baseline()->forecast.report : nullptr;
  const double longest =
      std::max(sim::in_seconds(now.step_time), base ? sim::in_seconds(base->step_time) : 0.0);
  for (const auto& [report, row] : {std::pair{&now, 0}, std::pair{base, 1}}) {
    const QRect box = bar(row);
    painter.setPen(theme.muted);
    painter.drawText(QRect{margin, box.top(), label_width - 8, bar_height},
                     Qt::AlignVCenter | Qt::AlignLeft, row == 0 ? tr("now") : tr("baseline"));
    if (!report) continue;
    double x = box.left();
    for (std::size_t part = 0; part < sim::breakdown_fields.size(); ++part) {
      const double width = sim::in_seconds(part_of(*report, part)) / longest * box.width();
      const QRectF area{x, static_cast<double>(box.top()), width, static_cast<double>(bar_height)};
      painter.fillRect(area, theme.parts[part]);
      if (sim::breakdown_fields[part].member == &sim::Breakdown::bubble)
        painter.fillRect(area, QBrush{theme.text, Qt::BDiagPattern});
      const QString text = share_text(*report, part);
      if (painter.fontMetrics().horizontalAdvance(text) + 10 < width) {
        if (sim::breakdown_fields[part].member == &sim::Breakdown::bubble)
          painter.fillRect(
              QRectF{x + 3, box.top() + 2.0, painter.fontMetrics().horizontalAdvance(text) + 6.0,
                     bar_height - 4.0},
              theme.parts[part]);
        painter.setPen(text_on(theme.parts[part]));
        painter.drawText(area.adjusted(6, 0, -4, 0), Qt::AlignVCenter | Qt::AlignLeft, text);
      }
      x += width;
    }
  }
  // The legend, for the parts that are too narrow for their names.
  int x = margin + label_width;
  const int y = bar(2).top();
  for (std::size_t part = 0; part < sim::breakdown_fields.size(); ++part) {
    if (!sim::breakdown_fields[part].shows(now.breakdown)) continue;
    const QString text = share_text(now, part);
    painter.fillRect(QRect{x, y + 5, 10, 10}, theme.parts[part]);
    if (sim::breakdown_fields[part].member == &sim::Breakdown::bubble)
      painter.fillRect(QRect{x, y + 5, 10, 10}, QBrush{theme.text, Qt::BDiagPattern});
    painter.setPen(theme.text);
    painter.drawText(QRect{x + 15, y, 400, 20}, Qt::AlignVCenter | Qt::AlignLeft, text);
    x += 15 + painter.fontMetrics().horizontalAdvance(text) + 18;
  }
}

bool BreakdownStrip::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip || !session_.result()) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  const sim::Report& now = session_.result()->forecast.report;
  QString text;
  for (std::size_t part = 0; part < sim::breakdown_fields.size(); ++part)
    if (sim::breakdown_fields[part].shows(now.breakdown))
      text += QString{"<b>%1</b> %2: %3<br>"}.arg(
          share_text(now, part), QString::fromStdString(sim::precise(part_of(now, part))),
          part_definition(part));
  QToolTip::showText(help->globalPos(), text + tr("Mean over all GPUs; the parts sum to the step."),
                     this);
  return true;
}

void BreakdownStrip::describe() {
  if (!session_.result()) return;
  QStringList parts;
  for (std::size_t part = 0; part < sim::breakdown_fields.size(); ++part)
    if (sim::breakdown_fields[part].shows(session_.result()->forecast.report.breakdown))
      parts << share_text(session_.result()->forecast.report, part);
  setAccessibleDescription(parts.join(", "));
}

}  // namespace ui
