// Forecast and run operator by operator: count, mean, total, share of the difference.
#pragma once

#include <QAbstractTableModel>
#include <optional>
#include <vector>

#include "sim/timeline/compare.hpp"

namespace ui {

class OperatorTable : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Column : int {
    name,
    pass,
    count_a,
    count_b,
    mean_a,
    mean_b,
    total_a,
    total_b,
    difference,
    share,
    column_count
  };
  static constexpr int sort_role = Qt::UserRole;

  explicit OperatorTable(QObject* parent = nullptr);
  // `traced`: what only the run has are kernels of a trace, of no known pass.
  void set_rows(std::vector<sim::OperatorRow> rows, bool traced = false);
  const sim::OperatorRow& row(int at) const { return rows_[static_cast<std::size_t>(at)]; }
  std::optional<int> find(const std::string& name, sim::Pass pass) const;

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  double number(const sim::OperatorRow& row, Column column) const;
  QString text(const sim::OperatorRow& row, Column column) const;

  std::vector<sim::OperatorRow> rows_;
  bool traced_ = false;
};

}  // namespace ui
