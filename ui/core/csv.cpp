#include "ui/core/csv.hpp"

#include <QTableView>

#include "sim/report/numbers.hpp"

namespace ui {

QString csv_of(const QAbstractItemView& table) {
  const QAbstractItemModel& model = *table.model();
  const auto* columns = qobject_cast<const QTableView*>(&table);
  const auto line = [&](const auto& text_of) {
    QStringList cells;
    for (int column = 0; column < model.columnCount(); ++column)
      if (!columns || !columns->isColumnHidden(column))
        cells << QString::fromStdString(sim::csv_field(text_of(column).toString().toStdString()));
    return cells.join(',') + '\n';
  };
  QString text = line([&](int column) { return model.headerData(column, Qt::Horizontal); });
  for (int row = 0; row < model.rowCount(); ++row)
    text += line([&](int column) { return model.data(model.index(row, column)); });
  return text;
}

}  // namespace ui
