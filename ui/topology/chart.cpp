#include "ui/topology/chart.hpp"

#include <QHelpEvent>
#include <QImage>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>
#include <array>

#include "sim/base/quantity.hpp"
#include "sim/report/numbers.hpp"

namespace ui {
namespace {

constexpr int margin = 8;
constexpr int title_width = 132;
constexpr int row_height = 18;
constexpr int strip_height = 14;
constexpr int scale_height = 26;
// Ends of the scale: the least that holds all.
constexpr std::array scale_ends{0.05, 0.1, 0.25, 0.5, 1.0};
constexpr int scale_width = 220;

// The figures to the right of a strip.
enum class Figure : std::uint8_t { most, mean, links, capacity };
struct FigureColumn {
  Figure figure;
  int width;
  const char* head;
};
constexpr std::array figures{FigureColumn{Figure::most, 60, QT_TR_NOOP("most")},
                             FigureColumn{Figure::mean, 60, QT_TR_NOOP("mean")},
                             FigureColumn{Figure::links, 62, QT_TR_NOOP("links")},
                             FigureColumn{Figure::capacity, 58, QT_TR_NOOP("GB/s")}};
constexpr int figures_width = 240;

QString percent(double share) {
  return QString{"%1 %"}.arg(100 * share, 0, 'f', 1);
}

QString text_of_count(std::size_t count) {
  return QString::fromStdString(sim::grouped(std::uint64_t{count}));
}

QColor between(const QColor& a, const QColor& b, double share) {
  const auto mix = [&](int x, int y) { return static_cast<int>(x + (y - x) * share); };
  return {mix(a.red(), b.red()), mix(a.green(), b.green()), mix(a.blue(), b.blue())};
}

}  // namespace

QColor use_colour(const Theme& theme, double use) {
  const QColor none{theme.dark ? "#27323d" : "#dde6ef"};
  const QColor half{theme.dark ? "#4f9ae0" : "#2f7fc1"};
  const QColor full{theme.dark ? "#ffd76a" : "#7a1020"};
  const double share = std::clamp(use, 0.0, 1.0);
  return share < 0.5 ? between(none, half, 2 * share) : between(half, full, 2 * share - 1);
}

QString tier_text(const ClusterLoads& loads, std::size_t tier) {
  const TierLoad& load = loads.tiers()[tier];
  const sim::LinkTier& of = loads.graph().links[tier];
  return QObject::tr(
             "%1: at most %2 of %3 is used, on average %4. %5 of %6 links carry %7 together.")
      .arg(QString::fromStdString(load.title), percent(load.most),
           QString::fromStdString(sim::to_text(of.most)), percent(load.mean),
           text_of_count(load.loaded), text_of_count(of.links.size()),
           QString::fromStdString(sim::to_text(load.carried)));
}

TierChart::TierChart(QWidget* parent) : QWidget{parent} {
  setFocusPolicy(Qt::StrongFocus);
  setAccessibleName(tr("Use of links by tier"));
}

QSize TierChart::minimumSizeHint() const {
  const int rows = static_cast<int>(shown_.size()) + (idle_.isEmpty() ? 0 : 1);
  return {title_width + figures_width + 180, 2 * margin + scale_height + rows * row_height};
}

void TierChart::set_loads(LoadsPtr loads) {
  loads_ = std::move(loads);
  shown_.clear();
  QStringList idle;
  double most = 0;
  for (std::size_t tier = 0; loads_ && tier < loads_->tiers().size(); ++tier) {
    const TierLoad& load = loads_->tiers()[tier];
    most = std::max(most, load.most);
    if (load.loaded > 0)
      shown_.push_back(tier);
    else
      idle << QString::fromStdString(load.title);
  }
  scale_end_ = *std::find_if(scale_ends.begin(), scale_ends.end() - 1,
                             [&](double end) { return end >= most; });
  idle_ = idle.isEmpty() ? QString{} : tr("idle: %1").arg(idle.join(", "));
  const bool gone = selected_ && (!loads_ || selected_->tier >= loads_->tiers().size() ||
                                  selected_->link >= loads_->tiers()[selected_->tier].use.size());
  if (gone) selected_.reset();
  updateGeometry();
  update();
  Q_EMIT selection_changed();
}

void TierChart::set_empty_text(const QString& text) {
  empty_text_ = text;
  update();
}

void TierChart::select(std::optional<LinkAt> at) {
  selected_ = at;
  setAccessibleDescription(at ? tier_text(*loads_, at->tier) : QString{});
  update();
  Q_EMIT selection_changed();
}

void TierChart::select_busiest() {
  if (shown_.empty()) return;
  const auto row =
      std::max_element(shown_.begin(), shown_.end(), [&](std::size_t a, std::size_t b) {
        return loads_->tiers()[a].most < loads_->tiers()[b].most;
      });
  select(busiest_of(static_cast<std::size_t>(row - shown_.begin())));
}

QRect TierChart::strip(std::size_t row) const {
  return {margin + title_width, margin + scale_height + static_cast<int>(row) * row_height,
          std::max(1, width() - 2 * margin - title_width - figures_width), strip_height};
}

void TierChart::paintEvent(QPaintEvent*) {
  QPainter painter{this};
  const Theme& theme = theme_of(*this);
  painter.fillRect(rect(), theme.ground);
  if (!loads_) {
    painter.setPen(theme.muted);
    painter.drawText(rect().adjusted(20, 0, -20, 0), Qt::AlignCenter | Qt::TextWordWrap,
                     empty_text_);
    return;
  }
  paint_scale(painter);
  paint_heads(painter);
  for (std::size_t row = 0; row < shown_.size(); ++row) {
    paint_row(painter, row);
    paint_numbers(painter, row);
    paint_mark(painter, row);
  }
  if (!idle_.isEmpty()) {
    painter.setPen(theme.muted);
    const QRect box{margin, strip(shown_.size()).top(), width() - 2 * margin, strip_height};
    painter.drawText(box, Qt::AlignVCenter | Qt::AlignLeft,
                     painter.fontMetrics().elidedText(idle_, Qt::ElideRight, box.width()));
  }
  if (hasFocus()) {
    painter.setPen(QPen{theme.accent, 1});
    painter.drawRect(rect().adjusted(0, 0, -1, -1));
  }
}

void TierChart::paint_row(QPainter& painter, std::size_t row) {
  const Theme& theme = theme_of(*this);
  const TierLoad& load = loads_->tiers()[shown_[row]];
  const QRect box = strip(row);
  const std::vector<float> columns = most_per_column(load.use, box.width());
  QImage line{box.width(), 1, QImage::Format_RGB32};
  auto* pixels = reinterpret_cast<QRgb*>(line.scanLine(0));
  for (int x = 0; x < box.width(); ++x)
    pixels[x] =
        use_colour(theme, static_cast<double>(columns[static_cast<std::size_t>(x)]) / scale_end_)
            .rgb();
  painter.drawImage(box, line);
  painter.setPen(theme.text);
  painter.drawText(QRect{margin, box.top(), title_width - 8, box.height()},
                   Qt::AlignVCenter | Qt::AlignLeft,
                   painter.fontMetrics().elidedText(QString::fromStdString(load.title),
                                                    Qt::ElideRight, title_width - 8));
}

void TierChart::paint_numbers(QPainter& painter, std::size_t row) {
  const Theme& theme = theme_of(*this);
  const TierLoad& load = loads_->tiers()[shown_[row]];
  const sim::LinkTier& of = loads_->graph().links[shown_[row]];
  QRect box = strip(row);
  box.setLeft(box.right() + 1);
  const auto text = [&](Figure figure) {
    switch (figure) {
      case Figure::most:
        return percent(load.most);
      case Figure::mean:
        return percent(load.mean);
      case Figure::links:
        return text_of_count(of.links.size());
      case Figure::capacity:
        break;
    }
    return QString::fromStdString(sim::significant(of.most.in_bytes_per_second() / 1e9));
  };
  for (const FigureColumn& column : figures) {
    box.setWidth(column.width);
    painter.setPen(column.figure == Figure::most ? theme.text : theme.muted);
    painter.drawText(box, Qt::AlignVCenter | Qt::AlignRight, text(column.figure));
    box.translate(column.width, 0);
  }
}

void TierChart::paint_mark(QPainter& painter, std::size_t row) {
  if (!selected_ || selected_->tier != shown_[row]) return;
  const Theme& theme = theme_of(*this);
  const QRect box = strip(row);
  const double links = static_cast<double>(loads_->tiers()[shown_[row]].use.size());
  const double left = box.left() + static_cast<double>(selected_->link) * box.width() / links;
  const double wide = std::max(5.0, box.width() / links);
  const QRectF mark{std::min(left, box.right() - wide), box.top() - 2.0, wide, box.height() + 3.0};
  painter.setPen(QPen{theme.ground, 4});
  painter.drawRect(mark);
  painter.setPen(QPen{theme.text, 2});
  painter.drawRect(mark);
}

// The colours with their numbers.
void TierChart::paint_scale(QPainter& painter) {
  const Theme& theme = theme_of(*this);
  const QRect first = strip(0);
  const int bar = std::min(scale_width, first.width());
  for (int x = 0; x < bar; ++x)
    painter.fillRect(first.left() + x, margin + 13, 1, 6,
                     use_colour(theme, static_cast<double>(x) / std::max(1, bar - 1)));
  painter.setPen(theme.muted);
  painter.drawText(QRect{margin, margin - 4, title_width - 8, 24}, Qt::AlignVCenter | Qt::AlignLeft,
                   tr("use of capacity"));
  for (const int mark : {0, 50, 100}) {
    const QString text = QString{"%1 %"}.arg(mark * scale_end_);
    const int wide = painter.fontMetrics().horizontalAdvance(text);
    const int x = first.left() + mark * (bar - wide) / 100;
    painter.drawText(QRect{x, margin - 5, wide + 2, 16}, Qt::AlignLeft | Qt::AlignVCenter, text);
  }
}

void TierChart::paint_heads(QPainter& painter) {
  const QRect first = strip(0);
  painter.setPen(theme_of(*this).muted);
  if (first.width() > scale_width + 190)
    painter.drawText(QRect{first.left() + scale_width, margin - 4, first.width() - scale_width, 24},
                     Qt::AlignVCenter | Qt::AlignRight, tr("first node  …  last node"));
  QRect box{first.right() + 1, margin - 4, 0, 24};
  for (const FigureColumn& column : figures) {
    box.setWidth(column.width);
    painter.drawText(box, Qt::AlignVCenter | Qt::AlignRight, tr(column.head));
    box.translate(column.width, 0);
  }
}

std::optional<LinkAt> TierChart::link_at(QPoint at) const {
  for (std::size_t row = 0; row < shown_.size(); ++row) {
    const QRect box = strip(row).adjusted(0, -2, 0, 3);
    if (at.y() < box.top() || at.y() > box.bottom()) continue;
    if (at.x() < box.left() || at.x() > box.right()) return busiest_of(row);
    const std::vector<float>& use = loads_->tiers()[shown_[row]].use;
    const auto column = static_cast<std::size_t>(at.x() - box.left());
    const auto columns = static_cast<std::size_t>(box.width());
    const std::size_t from = column * use.size() / columns;
    const std::size_t to = std::max(from + 1, (column + 1) * use.size() / columns);
    const auto begin = use.begin();
    return LinkAt{shown_[row], static_cast<std::size_t>(
                                   std::max_element(begin + static_cast<std::ptrdiff_t>(from),
                                                    begin + static_cast<std::ptrdiff_t>(to)) -
                                   begin)};
  }
  return std::nullopt;
}

LinkAt TierChart::busiest_of(std::size_t row) const {
  return {shown_[row], loads_->tiers()[shown_[row]].busiest()};
}

void TierChart::walk_tiers(int by) {
  const auto found =
      selected_ ? std::find(shown_.begin(), shown_.end(), selected_->tier) : shown_.end();
  if (found == shown_.end()) return select(busiest_of(0));
  const std::ptrdiff_t row = found - shown_.begin() + by;
  select(busiest_of(
      static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(row, 0, std::ssize(shown_) - 1))));
}

void TierChart::walk_links(bool forward) {
  if (!selected_) return select(busiest_of(0));
  if (const std::optional<LinkAt> next = loads_->next_other(*selected_, forward)) select(next);
}

void TierChart::mousePressEvent(QMouseEvent* event) {
  if (loads_) select(link_at(event->pos()));
}

void TierChart::keyPressEvent(QKeyEvent* event) {
  if (!loads_ || shown_.empty()) return QWidget::keyPressEvent(event);
  switch (event->key()) {
    case Qt::Key_Up:
      return walk_tiers(-1);
    case Qt::Key_Down:
      return walk_tiers(1);
    case Qt::Key_Home:
      return walk_tiers(0);
    case Qt::Key_Left:
      return walk_links(false);
    case Qt::Key_Right:
      return walk_links(true);
    case Qt::Key_Escape:
      return select(std::nullopt);
    default:
      QWidget::keyPressEvent(event);
  }
}

bool TierChart::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip || !loads_) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  if (const std::optional<LinkAt> at = link_at(help->pos()))
    QToolTip::showText(help->globalPos(), tier_text(*loads_, at->tier), this);
  else
    QToolTip::hideText();
  return true;
}

}  // namespace ui
