// One published row in words, and its way into What if.
#pragma once

#include <QLabel>
#include <QPushButton>
#include <QTextBrowser>
#include <QWidget>

#include "ui/validate/row_table.hpp"

namespace ui {

class RowDetails : public QWidget {
  Q_OBJECT

 public:
  explicit RowDetails(QWidget* parent = nullptr);
  void show_row(const RowTable& table, std::size_t place);
  void show_nothing();

 Q_SIGNALS:
  void open_asked();

 private:
  QLabel* title_;
  QTextBrowser* text_;
  QPushButton* open_;
};

}  // namespace ui
