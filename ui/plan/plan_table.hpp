// Rows of a plan: its answers, or all numbers of GPUs. Sorted by any column where that is allowed,
// and written as CSV.
#pragma once

#include <QAbstractTableModel>
#include <QSortFilterProxyModel>
#include <QTableView>
#include <optional>
#include <vector>

namespace ui {

struct PlanColumn {
  QString title, help;
  bool words = false;  // to the left
};

struct PlanCell {
  QString text;
  double key = 0;  // that a column of figures is sorted by
};

struct PlanRow {
  std::vector<PlanCell> cells;
  std::optional<std::size_t> point{};  // of CapacityPlan::points; none: nothing fits there
};

class PlanTableModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  explicit PlanTableModel(std::vector<PlanColumn> columns) : columns_{std::move(columns)} {}
  void set_rows(std::vector<PlanRow> rows);
  const std::vector<PlanRow>& rows() const { return rows_; }
  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& at, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  std::vector<PlanColumn> columns_;
  std::vector<PlanRow> rows_;
};

class PlanTable : public QTableView {
  Q_OBJECT

 public:
  PlanTable(const QString& accessible_name, std::vector<PlanColumn> columns, bool sortable,
            QWidget* parent = nullptr);
  void set_rows(std::vector<PlanRow> rows);
  void select_point(std::optional<std::size_t> point);  // the first row that is of it
  void select_row(int row);                             // of rows()
  // As high as its rows, and no higher.
  void fit_height();
  const PlanTableModel& rows() const { return model_; }

 Q_SIGNALS:
  void point_chosen(std::size_t point);

 protected:
  void currentChanged(const QModelIndex& now, const QModelIndex& before) override;
  void changeEvent(QEvent* event) override;

 private:
  PlanTableModel model_;
  QSortFilterProxyModel sorted_;
  bool quiet_ = false;  // a selection of ours, not the user's
};

}  // namespace ui
