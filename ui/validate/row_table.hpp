// The published rows as a table: measured, forecast, error; filtered, sorted, scored.
#pragma once

#include <QAbstractTableModel>
#include <QSortFilterProxyModel>
#include <optional>
#include <vector>

#include "sim/scores/score.hpp"
#include "ui/validate/row_job.hpp"

namespace ui {

enum class RowState : std::uint8_t { waiting, timed, memory_only, skipped };
RowState state_of(const RowResultPtr& result);

class RowTable : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Column : int {
    id,
    measured,
    predicted,
    error,
    gpu,
    gpus,
    framework,
    use,
    set,
    note,
    column_count
  };
  // sort_role, for data(): what sorting goes by.
  static constexpr int sort_role = Qt::UserRole;

  explicit RowTable(QObject* parent = nullptr);

  void set_sets(SetsPtr sets);
  void set_result(std::size_t place, RowResultPtr result);

  std::size_t size() const { return rows_.size(); }
  std::size_t done() const { return done_; }
  std::vector<std::size_t> waiting() const;
  const SetsPtr& sets() const { return sets_; }
  const sim::MeasuredSet& set_of(std::size_t place) const { return (*sets_)[rows_[place].set]; }
  const sim::MeasuredRow& row(std::size_t place) const;
  const RowResultPtr& result(std::size_t place) const { return results_[place]; }
  QString text(std::size_t place, Column column) const;

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  double number(std::size_t place, Column column) const;

  SetsPtr sets_;
  std::vector<RowAt> rows_;
  std::vector<RowResultPtr> results_;  // null: not yet
  std::size_t done_ = 0;
};

// Empty strings and nothing: all.
struct RowFilter {
  QString set, gpu, framework, use;  // as the table shows them
  std::optional<RowState> state;
  bool operator==(const RowFilter&) const = default;
};

class FilteredRows : public QSortFilterProxyModel {
  Q_OBJECT

 public:
  explicit FilteredRows(RowTable& table, QObject* parent = nullptr);
  const RowFilter& filter() const { return filter_; }
  void set_filter(const RowFilter& filter);
  bool accepts(std::size_t place) const;
  // In the order of the table.
  std::vector<std::size_t> places() const;
  // score() is of the accepted rows of a use that have been forecast, as `stepcast validate` scores
  // a set: it scores the held-out rows, and the calibration rows are never among them.
  sim::SetScore score(sim::RowUse use) const;
  QString csv() const;

 protected:
  bool filterAcceptsRow(int row, const QModelIndex& parent) const override;

 private:
  RowTable& table_;
  RowFilter filter_;
};

// "held-out" or "calibration".
QString use_text(sim::RowUse use);
// "-4.2 %".
QString error_text(double error);

}  // namespace ui
