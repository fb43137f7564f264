#include "ui/topology/diagram.hpp"

#include <QHelpEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>
#include <cmath>
#include <queue>

#include "sim/base/quantity.hpp"
#include "sim/report/numbers.hpp"
#include "ui/core/theme.hpp"
#include "ui/core/words.hpp"
#include "ui/topology/chart.hpp"

namespace ui {
namespace {

constexpr int left_margin = 38,
              right_margin = 8;  // left: for the number beside a link that goes up
constexpr int box_width = 70, box_height = 36;
constexpr int gap = 57;      // between columns, for the numbers
constexpr int row_gap = 44;  // between rows
constexpr int frame_room = 20;
constexpr double apart = 5;  // of the two directions, px from the middle
constexpr double near_px = 9;
constexpr int last_node_level = 6;  // sim::TopologyGraph: switches of the fabric are above

std::vector<std::vector<std::uint32_t>> neighbours_of(const sim::TopologyGraph& graph) {
  std::vector<std::vector<std::uint32_t>> near(graph.parts.size());
  for (const sim::LinkTier& tier : graph.links)
    if (tier.from != tier.to) near[tier.from].push_back(tier.to);
  return near;
}

// way_to_core() leads from the GPUs to the part of the highest level; empty: there is no way.
std::vector<std::uint32_t> way_to_core(const sim::TopologyGraph& graph) {
  const auto level = [&](std::uint32_t a, std::uint32_t b) {
    return graph.parts[a].level < graph.parts[b].level;
  };
  std::vector<std::uint32_t> all(graph.parts.size());
  for (std::uint32_t i = 0; i < all.size(); ++i)
    all[i] = i;
  if (all.empty()) return {};
  const std::uint32_t gpus = *std::min_element(all.begin(), all.end(), level);
  const std::uint32_t core = *std::max_element(all.begin(), all.end(), level);
  const auto near = neighbours_of(graph);
  std::vector<std::optional<std::uint32_t>> before(all.size());
  std::queue<std::uint32_t> open;
  before[core] = core;
  for (open.push(core); !open.empty(); open.pop())
    for (const std::uint32_t next : near[open.front()])
      if (!before[next]) {
        before[next] = open.front();
        open.push(next);
      }
  if (!before[gpus]) return {gpus};
  std::vector<std::uint32_t> way{gpus};
  while (way.back() != core)
    way.push_back(*before[way.back()]);
  return way;
}

QString load_percent(double share) {
  return QString{"%1 %"}.arg(100 * share, 0, 'f', 1);
}

double distance(const QLineF& line, QPointF at) {
  const double length = std::max(1e-9, line.length());
  const QPointF along{line.dx() / length, line.dy() / length};
  const QPointF to = at - line.p1();
  const double where = std::clamp(QPointF::dotProduct(to, along), 0.0, length);
  return QLineF{at, line.p1() + along * where}.length();
}

}  // namespace

std::vector<PartPlace> places_of(const sim::TopologyGraph& graph) {
  std::vector<PartPlace> places(graph.parts.size(), {-1, 0});
  const std::vector<std::uint32_t> way = way_to_core(graph);
  for (std::size_t i = 0; i < way.size(); ++i)
    places[way[i]] = {static_cast<int>(i), 0};
  const auto near = neighbours_of(graph);
  std::vector<int> height(way.size() + graph.parts.size(), 0);
  int end = static_cast<int>(way.size());
  for (std::size_t part = 0; part < places.size(); ++part) {
    if (places[part].column >= 0) continue;
    const auto host = std::find_if(near[part].begin(), near[part].end(),
                                   [&](std::uint32_t other) { return places[other].column >= 0; });
    const int column = host == near[part].end() ? end++ : places[*host].column;
    places[part] = {column,
                    host == near[part].end() ? 0 : ++height[static_cast<std::size_t>(column)]};
  }
  return places;
}

FabricDiagram::FabricDiagram(QWidget* parent) : QWidget{parent} {
  setAccessibleName(tr("Parts of the cluster and the use of the links between them"));
  setMouseTracking(true);
}

void FabricDiagram::show_loads(LoadsPtr loads, double scale_end) {
  loads_ = std::move(loads);
  scale_end_ = scale_end;
  places_ = loads_ ? places_of(loads_->graph()) : std::vector<PartPlace>{};
  updateGeometry();
  update();
}

void FabricDiagram::set_selected(std::optional<std::size_t> tier) {
  selected_ = tier;
  update();
}

int FabricDiagram::columns() const {
  int most = 0;
  for (const PartPlace& place : places_)
    most = std::max(most, place.column + 1);
  return most;
}

int FabricDiagram::rows() const {
  int most = 1;
  for (const PartPlace& place : places_)
    most = std::max(most, place.row + 1);
  return most;
}

QSize FabricDiagram::minimumSizeHint() const {
  if (!loads_) return {0, 0};
  return {left_margin + right_margin + columns() * (box_width + gap) - gap,
          2 * right_margin + frame_room + rows() * (box_height + row_gap) - row_gap + frame_room};
}

QRectF FabricDiagram::box_of(std::size_t part) const {
  const int free = std::max(0, width() - minimumSizeHint().width());
  const int more = columns() > 1 ? std::min(free / (columns() - 1), gap) : 0;
  const PartPlace& place = places_[part];
  return {static_cast<double>(left_margin + place.column * (box_width + gap + more)),
          static_cast<double>(right_margin + frame_room +
                              (rows() - 1 - place.row) * (box_height + row_gap)),
          box_width, box_height};
}

bool FabricDiagram::is_of_node(std::size_t part) const {
  return loads_->graph().parts[part].level <= last_node_level;
}

// The two directions lie beside each other, as cars on a road keep to the right.
QLineF FabricDiagram::line_of(std::size_t tier) const {
  const sim::LinkTier& of = loads_->graph().links[tier];
  const QRectF from = box_of(of.from);
  const QRectF to = box_of(of.to);
  if (of.from == of.to)  // below the box, there and back
    return {from.left() + 18, from.bottom() + apart, from.right() - 18, from.bottom() + apart};
  const PartPlace& a = places_[of.from];
  const PartPlace& b = places_[of.to];
  if (a.column == b.column) {
    const double x = from.center().x() + (a.row < b.row ? apart : -apart);
    return a.row < b.row ? QLineF{x, from.top(), x, to.bottom()}
                         : QLineF{x, from.bottom(), x, to.top()};
  }
  const double side = a.column < b.column ? -apart : apart;
  const QPointF shift{0, side};
  return a.column < b.column ? QLineF{QPointF{from.right(), from.center().y()} + shift,
                                      QPointF{to.left(), to.center().y()} + shift}
                             : QLineF{QPointF{from.left(), from.center().y()} + shift,
                                      QPointF{to.right(), to.center().y()} + shift};
}

std::optional<std::size_t> FabricDiagram::tier_at(QPointF at) const {
  std::optional<std::size_t> nearest;
  double least = near_px;
  for (std::size_t tier = 0; loads_ && tier < loads_->tiers().size(); ++tier) {
    const double away = distance(line_of(tier), at);
    if (away >= least) continue;
    least = away;
    nearest = tier;
  }
  return nearest;
}

void FabricDiagram::paintEvent(QPaintEvent*) {
  QPainter painter{this};
  painter.fillRect(rect(), theme_of(*this).ground);
  if (!loads_) return;
  painter.setRenderHint(QPainter::Antialiasing);
  paint_frame(painter);
  for (std::size_t tier = 0; tier < loads_->tiers().size(); ++tier)
    paint_link(painter, tier);
  for (std::size_t part = 0; part < places_.size(); ++part)
    paint_box(painter, part);
}

// Around the parts of a node.
void FabricDiagram::paint_frame(QPainter& painter) const {
  QRectF frame;
  for (std::size_t part = 0; part < places_.size(); ++part)
    if (is_of_node(part)) frame |= box_of(part);
  if (frame.isEmpty()) return;
  const Theme& theme = theme_of(*this);
  const QRectF outer = frame.adjusted(-8, -frame_room, 8, frame_room - 4);
  painter.setPen(QPen{theme.grid, 1});
  painter.setBrush(theme.panel);
  painter.drawRoundedRect(outer, 6, 6);
  painter.setPen(theme.muted);
  painter.drawText(
      outer.adjusted(8, 2, -8, 0), Qt::AlignTop | Qt::AlignLeft,
      tr("node × %1").arg(to_qstring(sim::grouped(static_cast<std::uint64_t>(loads_->nodes())))));
}

void FabricDiagram::paint_box(QPainter& painter, std::size_t part) const {
  const Theme& theme = theme_of(*this);
  const sim::PartTier& of = loads_->graph().parts[part];
  const QRectF box = box_of(part);
  painter.setPen(QPen{theme.muted, 1});
  painter.setBrush(theme.ground);
  painter.drawRoundedRect(box, 4, 4);
  painter.setPen(theme.text);
  painter.drawText(box.adjusted(4, 2, -4, -box.height() / 2), Qt::AlignCenter, spaced(of.name));
  painter.setPen(theme.muted);
  painter.drawText(box.adjusted(4, box.height() / 2 - 2, -4, -2), Qt::AlignCenter,
                   "× " + to_qstring(sim::grouped(std::uint64_t{of.count})));
}

void FabricDiagram::paint_link(QPainter& painter, std::size_t tier) const {
  const Theme& theme = theme_of(*this);
  const TierLoad& load = loads_->tiers()[tier];
  const QLineF line = line_of(tier);
  const bool idle = load.loaded == 0;
  if (selected_ == tier) {
    painter.setPen(QPen{theme.text, 8, Qt::SolidLine, Qt::FlatCap});
    painter.drawLine(line);
  }
  const QColor colour = idle ? theme.muted : use_colour(theme, load.most / scale_end_);
  painter.setPen(QPen{colour, idle ? 1.0 : 5.0, idle ? Qt::DotLine : Qt::SolidLine, Qt::FlatCap});
  painter.drawLine(line);
  if (idle) return;
  // Above the way there, below the way back; beside those that go up.
  const bool upright = std::abs(line.dx()) < 1;
  const bool first = upright ? line.dy() < 0 : line.dx() > 0;
  const double middle_y = (line.y1() + line.y2()) / 2;
  const double middle_x = (line.x1() + line.x2()) / 2;
  const QString arrow = upright ? (first ? "↑" : "↓") : (first ? "→" : "←");
  const QString text =
      first ? load_percent(load.most) + ' ' + arrow : arrow + ' ' + load_percent(load.most);
  const QRectF box = upright ? QRectF{first ? middle_x + 6 : middle_x - 6 - gap, middle_y - 9,
                                      static_cast<double>(gap), 18}
                             : QRectF{middle_x - gap / 2.0, first ? middle_y - 19 : middle_y + 2,
                                      static_cast<double>(gap), 18};
  painter.setPen(theme.text);
  painter.drawText(
      box,
      upright ? (first ? Qt::AlignLeft | Qt::AlignVCenter : Qt::AlignRight | Qt::AlignVCenter)
              : Qt::AlignCenter,
      text);
}

void FabricDiagram::mousePressEvent(QMouseEvent* event) {
  if (const std::optional<std::size_t> tier = tier_at(event->position())) Q_EMIT clicked(*tier);
}

bool FabricDiagram::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip || !loads_) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  if (const std::optional<std::size_t> tier = tier_at(help->pos()))
    QToolTip::showText(help->globalPos(), tier_text(*loads_, *tier), this);
  else
    QToolTip::hideText();
  return true;
}

}  // namespace ui
