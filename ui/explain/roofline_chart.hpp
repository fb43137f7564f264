// The kernels of a run as points over what their device can do: rate over arithmetic intensity,
// both axes logarithmic.
#pragma once

#include <vector>

#include "ui/charts/scatter.hpp"
#include "ui/explain/waterfall_tree.hpp"

namespace ui {

class RooflineChart : public Scatter {
  Q_OBJECT

 public:
  explicit RooflineChart(QWidget* parent = nullptr);
  void show_roofline(ExplanationPtr explanation);  // null: nothing is shown
  // The point that is selected; null: none is.
  const sim::RooflinePoint* point() const;
  // "mlp.up [8192x28672x4096], bf16: 612 TFLOP/s ...".
  QString text_of(const sim::RooflinePoint& point) const;
  std::size_t point_count() const;
  Q_INVOKABLE QString csv() const;

 Q_SIGNALS:
  void kernel_chosen(const QString& name);

 protected:
  void changeEvent(QEvent* event) override;

 private:
  const sim::RooflinePoint& point_at(const ScatterAt& at) const;
  void refresh();
  void show_lines();
  double rate_unit() const;  // FLOP/s of one of the axis

  ExplanationPtr explanation_;
  std::vector<std::vector<std::size_t>> places_;  // of the points of each set
};

}  // namespace ui
