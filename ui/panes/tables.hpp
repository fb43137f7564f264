// The tables of the newest forecast: collectives, links, operators by name.
#pragma once

#include <QStringList>
#include <QTableWidget>
#include <functional>
#include <vector>

#include "ui/core/session.hpp"

namespace ui {

// One cell: what is shown, and the number that sorting goes by.
struct Cell {
  QString text;
  double number = 0;
  bool numeric = false;
};
using Rows = std::vector<std::vector<Cell>>;

class ResultTable : public QTableWidget {
  Q_OBJECT

 public:
  using Fill = std::function<Rows(const Result&)>;
  ResultTable(Session& session, const QString& name, const QStringList& columns, Fill fill,
              QWidget* parent = nullptr);
  // As text with commas, with the heads of the columns.
  QString csv() const;

 private:
  void refresh();
  Session& session_;
  Fill fill_;
  ResultPtr shown_;

 protected:
  void showEvent(QShowEvent* event) override;
};

ResultTable* make_collectives_table(Session& session);
ResultTable* make_links_table(Session& session);
ResultTable* make_operators_table(Session& session);

}  // namespace ui
