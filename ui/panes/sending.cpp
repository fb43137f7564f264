#include "ui/panes/sending.hpp"

#include <QPainter>
#include <array>

#include "ui/core/theme.hpp"
#include "ui/core/words.hpp"

namespace ui {
namespace {

constexpr int sending_left_axis = 132;  // as the timeline's gutter
constexpr double mb_per_gb = 1000;
constexpr double head_room = 1.06;  // above the highest value
constexpr std::array inks{sim::Ink::tensor, sim::Ink::data, sim::Ink::pipeline};

}  // namespace

SendingPane::SendingPane(Session& session, QWidget* parent) : QWidget{parent}, session_{session} {
  setAccessibleName(tr("Sending over time"));
  setMinimumHeight(120);
  setToolTip(
      tr("The bytes that a bandwidth-optimal algorithm makes the rank send, spread over the time "
         "that the "
         "operator takes."));
  connect(&session_, &Session::result_changed, this, qOverload<>(&QWidget::update));
  connect(&session_, &Session::selection_changed, this, qOverload<>(&QWidget::update));
}

void SendingPane::set_window(const TimeWindow& window) {
  window_ = window;
  update();
}

void SendingPane::load() {
  if (shown_ == session_.result() && stage_ == session_.selection().stage) return;
  shown_ = session_.result();
  stage_ = session_.selection().stage;
  series_ = {};
  for (const LaneGroup& group : shown_->lanes.groups)
    if (group.stage == stage_) {
      series_ = sim::sending_over_time(shown_->forecast.timeline.tracks[group.track],
                                       *shown_->forecast.plan);
      break;
    }
}

void SendingPane::paintEvent(QPaintEvent*) {
  QPainter painter{this};
  const Theme& theme = theme_of(*this);
  painter.fillRect(rect(), theme.ground);
  painter.setPen(theme.muted);
  if (session_.result()) load();
  if (!session_.result() || series_.points.empty()) {
    painter.drawText(rect(), Qt::AlignCenter,
                     session_.result() ? tr("Nothing is sent in this layout.")
                                       : tr("What is sent appears with the first forecast."));
    return;
  }
  const QRect area{sending_left_axis, 10, width() - sending_left_axis - 208, height() - 20};
  painter.fillRect(area, theme.panel);
  const double top = head_room * static_cast<double>(highest(series_)) / mb_per_gb;
  const auto colour = [&](std::size_t which) {
    return theme.ink[static_cast<std::size_t>(inks[which])];
  };
  const std::vector<std::size_t> used = used_values(series_);
  StackedChart{series_, window_, mb_per_gb, 0, top}.paint(painter, area, used, colour);
  painter.setPen(theme.text);
  const double line = area.bottom() - area.height() / head_room;
  painter.drawText(QRectF{8, line - 10, sending_left_axis - 16.0, 20},
                   Qt::AlignRight | Qt::AlignVCenter,
                   QString{"%1 GB/s"}.arg(top / head_room, 0, 'f', 1));
  painter.drawText(QRect{8, area.bottom() - 18, sending_left_axis - 16, 20}, Qt::AlignRight, "0");
  int y = area.top();
  painter.drawText(QPoint{area.right() + 14, y + 12}, tr("one rank of stage %1 sends").arg(stage_));
  for (const std::size_t which : used) {
    y += 20;
    painter.fillRect(QRect{area.right() + 14, y + 4, 9, 9}, colour(which));
    painter.drawText(QPoint{area.right() + 30, y + 12}, to_qstring(series_.names[which]));
  }
}

}  // namespace ui
