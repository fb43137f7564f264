// Details of the selection: one operator, or the sums by name over an area of the timeline.
#pragma once

#include <QLabel>
#include <QPushButton>
#include <QWidget>

#include "ui/core/facts_table.hpp"
#include "ui/core/session.hpp"

namespace ui {

class Details : public QWidget {
  Q_OBJECT

 public:
  explicit Details(Session& session, QWidget* parent = nullptr);

 private:
  void refresh();
  void show_operator(const OperatorAt& at);
  void show_area(const TimeArea& area);
  void show_empty();
  void set_rows(const std::vector<std::pair<QString, QString>>& facts);

  Session& session_;
  FactsTable* table_;
  QLabel* hint_;  // while nothing is selected
  QPushButton* cause_;
  std::optional<OperatorAt> cause_at_;
};

}  // namespace ui
