#include "ui/panes/colour_legend.hpp"

#include <QPainter>
#include <algorithm>

#include "ui/core/theme.hpp"
#include "ui/core/words.hpp"

namespace ui {
namespace {

constexpr int row_height = 18;
constexpr int swatch = 10;
constexpr std::size_t others = 2;  // bubbles, critical path

// How long spans of each class take.
InkTimes times_of(const Lanes& lanes) {
  InkTimes sums{};
  const auto add = [&](const Strip& strip) {
    const InkTimes times = ink_times(strip, 0, lanes.end);
    for (std::size_t ink = 0; ink < sums.size(); ++ink)
      sums[ink] += times[ink];
  };
  for (const LaneGroup& group : lanes.groups) {
    add(group.compute);
    for (const Strip& strip : group.communication)
      add(strip);
  }
  return sums;
}

}  // namespace

ColourLegend::ColourLegend(Session& session, QWidget* parent) : QWidget{parent}, session_{session} {
  setAccessibleName(tr("Colours of the timeline"));
  setSizePolicy(QSizePolicy::Preferred, QSizePolicy::Fixed);
  connect(&session_, &Session::result_changed, this, &ColourLegend::refresh);
  refresh();
}

int ColourLegend::rows() const {
  return inks_.empty() ? 0 : static_cast<int>((inks_.size() + others + 1) / 2);
}

QSize ColourLegend::sizeHint() const {
  return {200, rows() * row_height + 4};
}

void ColourLegend::refresh() {
  inks_.clear();
  if (session_.result()) {
    const InkTimes times = times_of(session_.result()->lanes);
    for (std::size_t ink = 0; ink < times.size(); ++ink)
      if (times[ink] > 0) inks_.push_back(ink);
  }
  updateGeometry();
  update();
}

void ColourLegend::paintEvent(QPaintEvent*) {
  if (inks_.empty()) return;
  QPainter painter{this};
  const Theme& theme = theme_of(*this);
  const int count = static_cast<int>(inks_.size() + others);
  for (int i = 0; i < count; ++i) {
    const QPoint at{6 + (i % 2) * width() / 2, (i / 2) * row_height};
    const QRect box{at.x(), at.y() + (row_height - swatch) / 2, swatch, swatch};
    QString text;
    if (i < static_cast<int>(inks_.size())) {
      const std::size_t ink = inks_[static_cast<std::size_t>(i)];
      painter.fillRect(box, theme.ink[ink]);
      text = to_qstring(sim::ink_legend[ink].text);
    } else if (i == count - 2) {
      painter.fillRect(box, QBrush{theme.muted, Qt::BDiagPattern});
      text = tr("bubble");
    } else {
      painter.fillRect(QRect{box.left(), box.center().y(), swatch, 2}, theme.bad);
      text = tr("critical path");
    }
    painter.setPen(theme.muted);
    const QRect room{box.right() + 6, at.y(), width() / 2 - swatch - 14, row_height};
    painter.drawText(room, Qt::AlignVCenter | Qt::AlignLeft,
                     painter.fontMetrics().elidedText(text, Qt::ElideRight, room.width()));
  }
}

}  // namespace ui
