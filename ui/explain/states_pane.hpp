// Where the time of a step goes, and the ranks that others wait for with what they do meanwhile.
#pragma once

#include <QLabel>
#include <QTableWidget>
#include <QWidget>

#include "ui/charts/stacked_bars.hpp"
#include "ui/explain/waterfall_tree.hpp"

namespace ui {

class StatesPane : public QWidget {
  Q_OBJECT

 public:
  explicit StatesPane(QWidget* parent = nullptr);
  void show_states(ExplanationPtr explanation);  // null: nothing is shown
  Q_INVOKABLE QString csv() const;               // the ranks

 protected:
  void changeEvent(QEvent* event) override;

 private:
  void refresh();
  void show_bars();  // the mean, beside it the rank that is selected
  void fill_ranks();

  ExplanationPtr explanation_;
  StackedBars* bars_ = nullptr;
  QTableWidget* ranks_ = nullptr;
  QLabel *none_late_ = nullptr, *notes_ = nullptr;
};

}  // namespace ui
