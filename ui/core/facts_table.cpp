#include "ui/core/facts_table.hpp"

#include <QHeaderView>

namespace ui {

FactsTable::FactsTable(const QString& accessible_name, QWidget* parent)
    : QTableWidget{0, 2, parent} {
  setAccessibleName(accessible_name);
  horizontalHeader()->hide();
  horizontalHeader()->setSectionResizeMode(0, QHeaderView::ResizeToContents);
  horizontalHeader()->setStretchLastSection(true);
  verticalHeader()->hide();
  verticalHeader()->setDefaultSectionSize(fontMetrics().height() + 6);
  setEditTriggers(QAbstractItemView::NoEditTriggers);
  setShowGrid(false);
}

void FactsTable::set_facts(const std::vector<std::pair<QString, QString>>& facts) {
  setRowCount(static_cast<int>(facts.size()));
  for (int row = 0; row < rowCount(); ++row) {
    const auto& [name, value] = facts[static_cast<std::size_t>(row)];
    auto* left = new QTableWidgetItem{name};
    left->setForeground(palette().brush(QPalette::PlaceholderText));
    auto* right = new QTableWidgetItem{value};
    right->setToolTip(value);
    setItem(row, 0, left);
    setItem(row, 1, right);
  }
}

}  // namespace ui
