#include "ui/charts/scatter.hpp"

#include <QAccessible>
#include <QGraphicsLayout>
#include <QHelpEvent>
#include <QKeyEvent>
#include <QLegendMarker>
#include <QMouseEvent>
#include <QToolTip>
#include <QWheelEvent>
#include <algorithm>
#include <tuple>

namespace ui {
namespace {

constexpr double reach = 9;       // px around a point that belong to it
constexpr double mark_size = 18;  // px, around the selected point
constexpr double zoom_step = 1.25;
constexpr int most_parts = 6;  // of an axis

// Labels that are higher than a part are cut off.
int parts_of(int height) {
  constexpr int beside_the_plot = 90, label = 34;  // px
  return std::clamp((height - beside_the_plot) / label, 2, most_parts);
}

}  // namespace

Scatter::Scatter(const QString& accessible_name, QWidget* parent) : QChartView{parent} {
  setAccessibleName(accessible_name);
  setFrameShape(QFrame::NoFrame);
  setRenderHint(QPainter::Antialiasing);
  setMouseTracking(true);
  viewport()->setMouseTracking(true);
  viewport()->setFocusPolicy(Qt::NoFocus);  // and of its proxy, which is the chart
  setFocusPolicy(Qt::StrongFocus);
  viewport()->setAccessibleName(accessible_name);
  setMinimumSize(260, 200);
  chart()->setAnimationOptions(QChart::NoAnimation);
  chart()->legend()->setAlignment(Qt::AlignTop);
  chart()->legend()->setMarkerShape(QLegend::MarkerShapeFromSeries);
  for (QGraphicsLayout* layout : {chart()->layout(), chart()->legend()->layout()})
    layout->setContentsMargins(0, 0, 0, 0);  // beside those of apply_theme()
  connect(chart(), &QChart::plotAreaChanged, this, &Scatter::forget_places);
  set_axes({}, {});
}

void Scatter::set_axes(const ScatterAxis& x, const ScatterAxis& y) {
  QAbstractAxis* const old_x = x_;
  QAbstractAxis* const old_y = y_;
  x_ = make_axis(*chart(), x, x_, Qt::AlignBottom, most_parts);
  y_ = make_axis(*chart(), y, y_, Qt::AlignLeft, parts_of(height()));
  asked_ = {x, y};
  if (x_ != old_x || y_ != old_y) attach_all();
  apply_theme();
  forget_places();
}

void Scatter::apply_theme() {
  const Theme& theme = theme_of(*this);
  setBackgroundBrush(theme.ground);
  ui::apply_theme(*chart(), theme, font());
}

void Scatter::attach_all() {
  for (QAbstractSeries* series : chart()->series())
    for (QAbstractAxis* axis : {x_, y_})
      if (!series->attachedAxes().contains(axis)) series->attachAxis(axis);
}

void Scatter::set_lines(const std::vector<ScatterLine>& lines) {
  while (lines_.size() > lines.size()) {
    chart()->removeSeries(lines_.back());
    delete lines_.back();
    lines_.pop_back();
  }
  while (lines_.size() < lines.size()) {
    lines_.push_back(new QLineSeries);
    chart()->addSeries(lines_.back());
    lines_.back()->attachAxis(x_);
    lines_.back()->attachAxis(y_);
  }
  for (std::size_t i = 0; i < lines.size(); ++i) {
    lines_[i]->setName(lines[i].name);
    lines_[i]->setPen(QPen{lines[i].colour, lines[i].width, lines[i].style});
    lines_[i]->replace(lines[i].points);
    for (QLegendMarker* marker : chart()->legend()->markers(lines_[i]))
      marker->setVisible(!lines[i].name.isEmpty());
  }
}

void Scatter::set_sets(const std::vector<ScatterSet>& sets) {
  while (sets_.size() > sets.size()) {
    QLineSeries* series = &sets_.back()->series();
    sets_.pop_back();
    chart()->removeSeries(series);
    delete series;
  }
  while (sets_.size() < sets.size())
    sets_.push_back(std::make_unique<LightPoints>(*chart(), *x_, *y_, QString{}));
  for (std::size_t i = 0; i < sets.size(); ++i) {
    sets_[i]->series().setName(sets[i].name);
    sets_[i]->set_marker(sets[i].marker, sets[i].colour, sets[i].size);
    sets_[i]->set_points(sets[i].points);
    for (QLegendMarker* marker : chart()->legend()->markers(&sets_[i]->series()))
      marker->setVisible(!sets[i].name.isEmpty());
  }
  if (selected_ &&
      (selected_->set >= static_cast<int>(sets_.size()) ||
       selected_->point >= sets[static_cast<std::size_t>(selected_->set)].points.size()))
    selected_.reset();
  mark_selected();
  show_chart();
}

// Axes without points say nothing: then there is only the text.
void Scatter::show_chart() {
  const bool any = std::any_of(sets_.begin(), sets_.end(),
                               [](const auto& set) { return set->series().count() > 0; });
  shows_text_ = !any && !empty_text_.isEmpty();
  chart()->setOpacity(shows_text_ ? 0 : 1);  // a hidden chart would leave its axes no room
  viewport()->update();
}

LightPoints& Scatter::mark() {
  if (!mark_) {
    mark_ = std::make_unique<LightPoints>(*chart(), *x_, *y_, QString{});
    for (QLegendMarker* marker : chart()->legend()->markers(&mark_->series()))
      marker->setVisible(false);
  }
  return *mark_;
}

void Scatter::mark_selected() {
  mark().set_marker(Marker::target, theme_of(*this).text, mark_size);
  mark().set_points(selected_ ? QList<QPointF>{value_of(*selected_)} : QList<QPointF>{});
}

void Scatter::select(std::optional<ScatterAt> at) {
  if (at && (at->set < 0 || at->set >= static_cast<int>(sets_.size()) || at->point < 0 ||
             at->point >= sets_[static_cast<std::size_t>(at->set)]->series().count()))
    at.reset();
  selected_ = at;
  mark_selected();
  setAccessibleDescription(at && describe_ ? describe_(*at) : QString{});
}

void Scatter::set_describe(std::function<QString(const ScatterAt&)> describe) {
  describe_ = std::move(describe);
}

void Scatter::set_empty_text(const QString& text) {
  empty_text_ = text;
  show_chart();
}

QPointF Scatter::value_of(const ScatterAt& at) const {
  return sets_[static_cast<std::size_t>(at.set)]->series().at(at.point);
}

std::optional<ScatterAt> Scatter::nearest(const QPointF& place) const {
  std::optional<ScatterAt> best;
  double distance = reach;
  for (std::size_t set = sets_.size(); set-- > 0;) {  // the one drawn last is on top
    const std::optional<Hit> hit = sets_[set]->nearest(place, distance);
    if (!hit || (best && hit->distance >= distance)) continue;
    best = ScatterAt{static_cast<int>(set), hit->index};
    distance = hit->distance;
  }
  return best;
}

QPoint Scatter::screen_place(const ScatterAt& at) const {
  const QPointF inside =
      chart()->mapToPosition(value_of(at), &sets_[static_cast<std::size_t>(at.set)]->series());
  return viewport()->mapToGlobal(mapFromScene(chart()->mapToScene(inside)));
}

void Scatter::choose(const ScatterAt& at) {
  select(at);
  Q_EMIT chosen(at);
}

void Scatter::forget_places() {
  for (const auto& set : sets_)
    set->forget_places();
}

void Scatter::mousePressEvent(QMouseEvent* event) {
  pressed_ = event->pos();
}

void Scatter::mouseReleaseEvent(QMouseEvent* event) {
  if ((event->pos() - pressed_).manhattanLength() > 4) return;
  if (const auto at = nearest(chart()->mapFromScene(mapToScene(event->pos())))) choose(*at);
}

void Scatter::mouseDoubleClickEvent(QMouseEvent* event) {
  if (const auto at = nearest(chart()->mapFromScene(mapToScene(event->pos()))))
    Q_EMIT activated(*at);
  else
    reset_zoom();
}

void Scatter::mouseMoveEvent(QMouseEvent* event) {
  if (event->buttons() & Qt::LeftButton) {
    const QPoint moved = event->pos() - pressed_;
    if (!chart()->isZoomed() || moved.manhattanLength() <= 4) return;
    chart()->scroll(-moved.x(), moved.y());
    pressed_ = event->pos();
    forget_places();
    return;
  }
  const auto at = nearest(chart()->mapFromScene(mapToScene(event->pos())));
  viewport()->setCursor(at ? Qt::PointingHandCursor : Qt::ArrowCursor);
}

bool Scatter::viewportEvent(QEvent* event) {
  if (event->type() != QEvent::ToolTip) return QChartView::viewportEvent(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  const auto at = nearest(chart()->mapFromScene(mapToScene(help->pos())));
  QToolTip::showText(help->globalPos(), at && describe_ ? describe_(*at) : QString{}, this);
  return true;
}

void Scatter::zoom(double factor, const QPointF& at) {
  const QRectF area = chart()->plotArea();
  const QSizeF size = area.size() / factor;
  const QPointF corner{at.x() - (at.x() - area.left()) / factor,
                       at.y() - (at.y() - area.top()) / factor};
  chart()->zoomIn(QRectF{corner, size});
  forget_places();
}

void Scatter::reset_zoom() {
  chart()->zoomReset();
  forget_places();
}

void Scatter::wheelEvent(QWheelEvent* event) {
  const QPointF at = chart()->mapFromScene(mapToScene(event->position().toPoint()));
  if (event->angleDelta().y() == 0 || !chart()->plotArea().contains(at)) return;
  zoom(event->angleDelta().y() > 0 ? zoom_step : 1 / zoom_step, at);
  event->accept();
}

// Selects the next point by x, or by y; the first one where none is selected.
void Scatter::walk(bool forward, bool along_x) {
  std::vector<std::tuple<double, double, int, int>> order;
  for (int set = 0; set < static_cast<int>(sets_.size()); ++set) {
    const QList<QPointF> points = sets_[static_cast<std::size_t>(set)]->points();
    for (int i = 0; i < points.size(); ++i)
      order.emplace_back(along_x ? points[i].x() : points[i].y(),
                         along_x ? points[i].y() : points[i].x(), set, i);
  }
  if (order.empty()) return;
  std::sort(order.begin(), order.end());
  std::size_t next = 0;
  if (selected_) {
    const auto at = std::find_if(order.begin(), order.end(), [&](const auto& one) {
      return std::get<2>(one) == selected_->set && std::get<3>(one) == selected_->point;
    });
    next = static_cast<std::size_t>(at - order.begin());
    if (forward && next + 1 < order.size()) ++next;
    if (!forward && next > 0) --next;
  }
  choose({std::get<2>(order[next]), std::get<3>(order[next])});
}

void Scatter::keyPressEvent(QKeyEvent* event) {
  const QPointF middle = chart()->plotArea().center();
  switch (event->key()) {
    case Qt::Key_Right:
      return walk(true, true);
    case Qt::Key_Left:
      return walk(false, true);
    case Qt::Key_Up:
      return walk(true, false);
    case Qt::Key_Down:
      return walk(false, false);
    case Qt::Key_W:
      return zoom(zoom_step, middle);
    case Qt::Key_S:
      return zoom(1 / zoom_step, middle);
    case Qt::Key_Home:
      return reset_zoom();
    case Qt::Key_Return:
    case Qt::Key_Enter:
      if (selected_) Q_EMIT activated(*selected_);
      return;
    default:
      QGraphicsView::keyPressEvent(event);
  }
}

void Scatter::changeEvent(QEvent* event) {
  QChartView::changeEvent(event);
  if (event->type() != QEvent::PaletteChange && event->type() != QEvent::FontChange) return;
  apply_theme();
  mark_selected();
}

void Scatter::focusInEvent(QFocusEvent* event) {
  QChartView::focusInEvent(event);
  viewport()->update();
}

void Scatter::focusOutEvent(QFocusEvent* event) {
  QChartView::focusOutEvent(event);
  viewport()->update();
}

void Scatter::resizeEvent(QResizeEvent* event) {
  QChartView::resizeEvent(event);
  const bool other_parts = parts_of(event->size().height()) != parts_of(event->oldSize().height());
  if (other_parts && !chart()->isZoomed()) set_axes(asked_.first, asked_.second);
  forget_places();
}

void Scatter::drawForeground(QPainter* painter, const QRectF& rect) {
  QChartView::drawForeground(painter, rect);
  if (hasFocus()) {
    painter->save();
    painter->resetTransform();
    painter->setPen(QPen{theme_of(*this).accent, 1});
    painter->drawRect(viewport()->rect().adjusted(0, 0, -1, -1));
    painter->restore();
  }
  if (!shows_text_) return;
  painter->setPen(theme_of(*this).muted);
  painter->resetTransform();
  const int side = std::max(16, (viewport()->width() - 460) / 2);
  painter->drawText(viewport()->rect().adjusted(side, 16, -side, -16),
                    Qt::AlignCenter | Qt::TextWordWrap, empty_text_);
}

}  // namespace ui
