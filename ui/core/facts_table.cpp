#include "ui/core/facts_table.hpp"

#include <QEvent>
#include <QHeaderView>
#include <algorithm>
#include <array>

namespace ui {

FactsTable::FactsTable(const QString& accessible_name, QWidget* parent)
    : QTableWidget{0, 2, parent} {
  setAccessibleName(accessible_name);
  horizontalHeader()->hide();
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
    left->setToolTip(name);
    left->setForeground(palette().brush(QPalette::PlaceholderText));
    auto* right = new QTableWidgetItem{value};
    right->setToolTip(value);
    setItem(row, 0, left);
    setItem(row, 1, right);
  }
  fit();
}

void FactsTable::changeEvent(QEvent* event) {
  QTableWidget::changeEvent(event);
  if (event->type() != QEvent::PaletteChange) return;
  for (int row = 0; row < rowCount(); ++row)
    item(row, 0)->setForeground(palette().brush(QPalette::PlaceholderText));
}

void FactsTable::resizeEvent(QResizeEvent* event) {
  QTableWidget::resizeEvent(event);
  fit();
}

// Names take what they need, but leave half of the width, or what the values need, if that is less.
void FactsTable::fit() {
  constexpr int sides = 8, above_and_below = 6, most = 10'000;  // px
  if (rowCount() > 0 && !item(rowCount() - 1, 1)) return;       // not yet filled
  std::array<int, 2> needed{};
  for (int row = 0; row < rowCount(); ++row)
    for (int column = 0; column < 2; ++column)
      needed[static_cast<std::size_t>(column)] =
          std::max(needed[static_cast<std::size_t>(column)],
                   fontMetrics().horizontalAdvance(item(row, column)->text()) + sides);
  const int room = viewport()->width();
  setColumnWidth(0, std::min(needed[0], std::max(room / 2, room - needed[1])));
  const std::array widths{columnWidth(0), room - columnWidth(0)};
  for (int row = 0; row < rowCount(); ++row) {
    int height = 0;
    for (int column = 0; column < 2; ++column) {
      const QRect box{0, 0, widths[static_cast<std::size_t>(column)] - sides, most};
      const QString text = item(row, column)->text();
      height = std::max(height, fontMetrics().boundingRect(box, Qt::TextWordWrap, text).height());
    }
    setRowHeight(row, height + above_and_below);
  }
}

}  // namespace ui
