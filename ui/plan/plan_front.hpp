// The front of a plan as a chart: days of the run over its cost, by cluster.
#pragma once

#include <vector>

#include "ui/charts/scatter.hpp"
#include "ui/plan/plan_job.hpp"

namespace ui {

class PlanFront : public Scatter {
  Q_OBJECT

 public:
  explicit PlanFront(QWidget* parent = nullptr);
  void show_plan(PlanPtr plan);          // null: nothing is shown
  void select_point(std::size_t point);  // of CapacityPlan::points
  // The points that are shown, each with its place on the screen.
  std::vector<std::pair<QPoint, std::size_t>> points_on_screen() const;

 Q_SIGNALS:
  void point_chosen(std::size_t point);

 protected:
  void changeEvent(QEvent* event) override;

 private:
  void refresh();
  void show_axes();
  void show_lines();
  QPointF place_of(const sim::CapacityPoint& point) const;

  PlanPtr plan_;
  std::vector<std::vector<std::size_t>> places_;  // of the points of each set
  ScatterAxis x_axis_, y_axis_;
  double unit_ = 1;  // of the cost
};

// "64 x dgx-h100: 20.14 (17.33 to 23.4) days, 77,326 USD, kept with 100 %", the layout below.
QString point_text(const sim::CapacityPlan& plan, const sim::CapacityPoint& point);

}  // namespace ui
