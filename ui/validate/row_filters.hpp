// Filters of the published rows that are shown.
#pragma once

#include <QComboBox>
#include <QWidget>
#include <array>

#include "ui/validate/row_table.hpp"

namespace ui {

class RowFilters : public QWidget {
  Q_OBJECT

 public:
  explicit RowFilters(QWidget* parent = nullptr);
  // The values that the rows of the table have; what is chosen stays chosen.
  void offer(const RowTable& table);
  RowFilter filter() const;
  void reset();

 Q_SIGNALS:
  void changed();

 private:
  struct Choice {
    RowTable::Column column;
    QString RowFilter::*field;
    QComboBox* box;
  };
  std::array<Choice, 4> choices_;
  QComboBox* state_;
};

}  // namespace ui
