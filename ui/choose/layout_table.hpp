// Layouts as a table that can be sorted by each column, and written as CSV.
#pragma once

#include <QAbstractTableModel>
#include <QSortFilterProxyModel>
#include <QTableView>
#include <unordered_map>

#include "ui/choose/search_job.hpp"

namespace ui {

struct LayoutRow {
  SearchPoint point;
  int rank = 0;  // 1: the best; 0: not among the ranked
  bool on_front = false;
};

class LayoutModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Column { rank, layout, gpus, step, slower, memory, verdict, mfu, tokens, headroom, cost };
  static constexpr int columns = cost + 1;

  using QAbstractTableModel::QAbstractTableModel;
  void set_rows(SearchedPtr searched, std::vector<LayoutRow> rows);
  const std::vector<LayoutRow>& rows() const { return rows_; }
  const SearchedPtr& searched() const { return searched_; }
  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& at, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  struct Shown {
    QString layout;
    int gpus = 0;
    double tokens = 0, mfu = 0, cost = 0;
  };
  Shown describe_row(const sim::Evaluation& evaluation) const;
  QString text(int row, int column) const;
  double number(int row, int column) const;

  SearchedPtr searched_;
  std::vector<LayoutRow> rows_;
  std::unordered_map<std::uint32_t, Shown> known_;  // by candidate
  std::vector<const Shown*> shown_;                 // of each row
  sim::Duration best_{};
};

class LayoutTable : public QTableView {
  Q_OBJECT

 public:
  explicit LayoutTable(QWidget* parent = nullptr);
  // Keeps the selected layout where it is still there.
  void set_rows(SearchedPtr searched, std::vector<LayoutRow> rows);
  void select(std::uint32_t index);  // of the candidate
  const LayoutModel& layouts() const { return model_; }

 Q_SIGNALS:
  void chosen(const sim::Evaluation& evaluation);
  void activated_layout(const sim::Evaluation& evaluation);  // Enter or double click

 protected:
  void currentChanged(const QModelIndex& now, const QModelIndex& before) override;
  void keyPressEvent(QKeyEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  const LayoutRow* row_at(const QModelIndex& shown) const;
  void widen_layouts();

  LayoutModel model_;
  QSortFilterProxyModel sorted_;
  bool quiet_ = false;  // a selection of ours, not the user's
};

}  // namespace ui
