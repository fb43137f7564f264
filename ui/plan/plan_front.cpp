#include "ui/plan/plan_front.hpp"

#include <QEvent>
#include <QLegend>
#include <algorithm>
#include <array>
#include <utility>

#include "sim/base/table_text.hpp"
#include "sim/capacity/capacity_words.hpp"
#include "ui/core/words.hpp"

namespace ui {
namespace {

constexpr std::array markers{Marker::disc, Marker::square, Marker::diamond, Marker::triangle,
                             Marker::cross};
constexpr std::array parts{0, 4, 3, 5, 7, 2};  // of the theme, those that read on both grounds
constexpr double marker_size = 10;             // px
constexpr double wide = 8;                     // largest over smallest, for a logarithmic axis

bool is_drawn(const sim::CapacityPoint& point) {
  return point.run && point.run->rented.ends();
}

// Around values; logarithmic where they are far apart.
ScatterAxis axis_over(const QString& title, double least, double most) {
  if (most > wide * least) return {title, least / 1.3, most * 1.3, true};
  const double room = std::max(0.06 * (most - least), 0.02 * most);
  return {title, std::max(0.0, least - room), most + room};
}

}  // namespace

QString point_text(const sim::CapacityPlan& plan, const sim::CapacityPoint& point) {
  QString text =
      QString{"%1 × %2"}.arg(to_qstring(sim::grouped(point.gpus)), to_qstring(point.cluster));
  text +=
      PlanFront::tr(": %1 a step").arg(to_qstring(sim::precise(point.best.evaluation.step_time)));
  if (is_drawn(point)) text += PlanFront::tr(", %1 days").arg(to_qstring(sim::days_text(point)));
  if (point.cost) text += ", " + to_qstring(sim::money_text(plan, point));
  if (plan.wish.deadline || plan.wish.money)
    text += PlanFront::tr(", kept with %1 %").arg(100 * point.chance, 0, 'f', 0);
  return text + '\n' + to_qstring(point.layout);
}

PlanFront::PlanFront(QWidget* parent) : Scatter{tr("Days of the run over its cost"), parent} {
  set_describe([this](const ScatterAt& at) {
    const std::size_t point =
        places_[static_cast<std::size_t>(at.set)][static_cast<std::size_t>(at.point)];
    return point_text(*plan_, plan_->points[point]);
  });
  connect(this, &Scatter::chosen, this, [this](const ScatterAt& at) {
    Q_EMIT point_chosen(
        places_[static_cast<std::size_t>(at.set)][static_cast<std::size_t>(at.point)]);
  });
}

void PlanFront::show_plan(PlanPtr plan) {
  plan_ = std::move(plan);
  refresh();
}

QPointF PlanFront::place_of(const sim::CapacityPoint& point) const {
  return {point.price() / unit_, point.days()};
}

// A set for each cluster, and one for those of its points that do not keep the wish: grey.
void PlanFront::refresh() {
  select({});
  places_.clear();
  const bool any = plan_ && std::ranges::any_of(plan_->points, is_drawn);
  if (!any) {
    set_lines({});
    return set_sets({});
  }
  show_axes();
  show_lines();
  const Theme& theme = theme_of(*this);
  std::vector<ScatterSet> sets;
  const std::vector<std::string>& clusters = plan_->wish.clusters;
  bool grey = false;  // in the legend
  for (const bool kept : {true, false}) {
    for (std::size_t c = 0; c < clusters.size(); ++c) {
      ScatterSet set{kept ? to_qstring(clusters[c]) : QString{},
                     markers[c % markers.size()],
                     kept ? theme.parts[static_cast<std::size_t>(parts[c % parts.size()])]
                          : theme.grid.darker(theme.dark ? 60 : 130),
                     marker_size,
                     {}};
      std::vector<std::size_t> places;
      for (std::size_t i = 0; i < plan_->points.size(); ++i) {
        const sim::CapacityPoint& point = plan_->points[i];
        if (!is_drawn(point) || point.cluster != clusters[c] ||
            sim::keeps(plan_->wish, point) != kept)
          continue;
        set.points.append(place_of(point));
        places.push_back(i);
      }
      if (!kept && !places.empty() && !std::exchange(grey, true)) set.name = tr("not kept");
      sets.push_back(std::move(set));
      places_.push_back(std::move(places));
    }
  }
  set_sets(sets);
}

void PlanFront::show_axes() {
  double least_x = 0, most_x = 0, least_y = 0, most_y = 0;
  bool priced = true, first = true;
  for (const sim::CapacityPoint& point : plan_->points) {
    if (!is_drawn(point)) continue;
    priced = priced && point.cost.has_value();
    least_x = first ? point.price() : std::min(least_x, point.price());
    least_y = first ? point.days() : std::min(least_y, point.days());
    most_x = std::max(most_x, point.price());
    most_y = std::max(most_y, point.days());
    first = false;
  }
  unit_ = most_x >= 2e6 ? 1e6 : most_x >= 2e4 ? 1e3 : 1;
  const QString scale = unit_ > 1e3 ? tr(", million") : unit_ > 1 ? tr(", thousand") : QString{};
  const QString unit = priced ? tr("rent%1, %2").arg(scale, to_qstring(plan_->wish.prices.currency))
                              : tr("GPU-hours%1").arg(scale);
  x_axis_ = axis_over(unit, least_x / unit_, most_x / unit_);
  y_axis_ = axis_over(tr("days"), least_y, most_y);
  set_axes(x_axis_, y_axis_);
}

void PlanFront::show_lines() {
  const Theme& theme = theme_of(*this);
  std::vector<ScatterLine> lines{{tr("front"), theme.good, Qt::SolidLine, 1.5, {}}};
  for (const std::size_t i : plan_->front)
    lines.front().points.append(place_of(plan_->points[i]));
  const sim::CapacityWish& wish = plan_->wish;
  if (wish.deadline) {
    const double days = sim::in_days(*wish.deadline);
    if (days > y_axis_.least && days < y_axis_.most)
      lines.push_back({tr("deadline"),
                       theme.bad,
                       Qt::DashLine,
                       1.5,
                       {{x_axis_.least, days}, {x_axis_.most, days}}});
  }
  if (wish.money) {
    const double money = *wish.money / unit_;
    if (money > x_axis_.least && money < x_axis_.most)
      lines.push_back({tr("budget"),
                       theme.warn,
                       Qt::DotLine,
                       1.5,
                       {{money, y_axis_.least}, {money, y_axis_.most}}});
  }
  set_lines(lines);
}

void PlanFront::select_point(std::size_t point) {
  for (std::size_t set = 0; set < places_.size(); ++set)
    for (std::size_t i = 0; i < places_[set].size(); ++i)
      if (places_[set][i] == point)
        return select(ScatterAt{static_cast<int>(set), static_cast<int>(i)});
  select({});
}

std::vector<std::pair<QPoint, std::size_t>> PlanFront::points_on_screen() const {
  std::vector<std::pair<QPoint, std::size_t>> places;
  for (std::size_t set = 0; set < places_.size(); ++set)
    for (std::size_t i = 0; i < places_[set].size(); ++i)
      places.emplace_back(screen_place({static_cast<int>(set), static_cast<int>(i)}),
                          places_[set][i]);
  return places;
}

void PlanFront::changeEvent(QEvent* event) {
  Scatter::changeEvent(event);
  if (event->type() != QEvent::PaletteChange) return;
  const std::optional<ScatterAt> at = selected();
  refresh();
  select(at);
}

}  // namespace ui
