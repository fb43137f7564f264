#include "ui/plan/plan_table.hpp"

#include <QEvent>
#include <QGuiApplication>
#include <QHeaderView>
#include <QPalette>
#include <algorithm>
#include <utility>

namespace ui {

void PlanTableModel::set_rows(std::vector<PlanRow> rows) {
  beginResetModel();
  rows_ = std::move(rows);
  endResetModel();
}

int PlanTableModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(rows_.size());
}

int PlanTableModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(columns_.size());
}

QVariant PlanTableModel::data(const QModelIndex& at, int role) const {
  if (!at.isValid()) return {};
  const PlanRow& row = rows_[static_cast<std::size_t>(at.row())];
  const auto column = static_cast<std::size_t>(at.column());
  const bool words = columns_[column].words;
  switch (role) {
    case Qt::DisplayRole:
    case Qt::ToolTipRole:
      return row.cells[column].text;
    case Qt::UserRole:  // that sorting goes by
      if (words) return row.cells[column].text;
      return row.cells[column].key;
    case Qt::TextAlignmentRole:
      return static_cast<int>((words ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter);
    case Qt::ForegroundRole:
      return row.point ? QVariant{}
                       : QVariant{QGuiApplication::palette().brush(QPalette::PlaceholderText)};
    default:
      return {};
  }
}

QVariant PlanTableModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal || section >= static_cast<int>(columns_.size())) return {};
  const PlanColumn& column = columns_[static_cast<std::size_t>(section)];
  if (role == Qt::DisplayRole) return column.title;
  if (role == Qt::ToolTipRole) return column.help;
  if (role == Qt::TextAlignmentRole)
    return static_cast<int>((column.words ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter);
  return {};
}

PlanTable::PlanTable(const QString& accessible_name, std::vector<PlanColumn> columns, bool sortable,
                     QWidget* parent)
    : QTableView{parent}, model_{std::move(columns)} {
  setAccessibleName(accessible_name);
  sorted_.setSourceModel(&model_);
  sorted_.setSortRole(Qt::UserRole);
  setModel(&sorted_);
  setSortingEnabled(sortable);
  if (sortable) sortByColumn(-1, Qt::AscendingOrder);  // as they were looked at
  setSelectionBehavior(SelectRows);
  setSelectionMode(SingleSelection);
  setAlternatingRowColors(true);
  setShowGrid(false);
  setWordWrap(false);
  setTabKeyNavigation(false);
  verticalHeader()->hide();
  verticalHeader()->setDefaultSectionSize(fontMetrics().height() + 6);
  horizontalHeader()->setHighlightSections(false);
  horizontalHeader()->setStretchLastSection(true);
}

void PlanTable::set_rows(std::vector<PlanRow> rows) {
  const QModelIndex now = sorted_.mapToSource(currentIndex());
  const std::optional<std::size_t> kept =
      now.isValid() ? model_.rows()[static_cast<std::size_t>(now.row())].point : std::nullopt;
  quiet_ = true;
  model_.set_rows(std::move(rows));
  quiet_ = false;
  resizeColumnsToContents();
  select_point(kept);
}

void PlanTable::select_point(std::optional<std::size_t> point) {
  const QModelIndex now = sorted_.mapToSource(currentIndex());
  if (point && now.isValid() && model_.rows()[static_cast<std::size_t>(now.row())].point == point)
    return;
  quiet_ = true;
  clearSelection();
  setCurrentIndex({});
  for (std::size_t row = 0; point && row < model_.rows().size(); ++row) {
    if (model_.rows()[row].point != point) continue;
    setCurrentIndex(sorted_.mapFromSource(model_.index(static_cast<int>(row), 0)));
    break;
  }
  quiet_ = false;
}

void PlanTable::select_row(int row) {
  quiet_ = true;
  setCurrentIndex(sorted_.mapFromSource(model_.index(row, 0)));
  quiet_ = false;
}

void PlanTable::fit_height() {
  const int rows = std::max(1, model_.rowCount()) * verticalHeader()->defaultSectionSize();
  setFixedHeight(horizontalHeader()->sizeHint().height() + rows + 2 * frameWidth());
}

void PlanTable::currentChanged(const QModelIndex& now, const QModelIndex& before) {
  QTableView::currentChanged(now, before);
  const QModelIndex at = sorted_.mapToSource(now);
  if (quiet_ || !at.isValid()) return;
  if (const auto point = model_.rows()[static_cast<std::size_t>(at.row())].point)
    Q_EMIT point_chosen(*point);
}

void PlanTable::changeEvent(QEvent* event) {
  QTableView::changeEvent(event);
  if (event->type() == QEvent::PaletteChange) viewport()->update();
}

}  // namespace ui
