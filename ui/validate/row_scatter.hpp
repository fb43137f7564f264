// The published rows as points: forecast over measured, both axes logarithmic.
#pragma once

#include <optional>
#include <vector>

#include "ui/charts/scatter.hpp"
#include "ui/validate/row_table.hpp"

namespace ui {

class RowScatter : public Scatter {
  Q_OBJECT

 public:
  explicit RowScatter(const RowTable& table, QWidget* parent = nullptr);
  // The rows that are shown, by their places in the table.
  void show_rows(const std::vector<std::size_t>& places);
  void select_row(std::optional<std::size_t> place);
  std::size_t point_count() const;

 Q_SIGNALS:
  void row_chosen(std::size_t place);
  void row_activated(std::size_t place);

 private:
  std::size_t place_at(const ScatterAt& at) const;
  void show_axes();

  const RowTable& table_;
  std::vector<std::vector<std::size_t>> places_;  // of the points of each set of the chart
  int first_ = 0, last_ = 1;                      // decades of both axes
};

}  // namespace ui
