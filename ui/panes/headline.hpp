// The figures on top of the window, each with its change against the baseline.
#pragma once

#include <QLabel>
#include <QWidget>
#include <vector>

#include "ui/core/session.hpp"

namespace ui {

class Headline : public QWidget {
  Q_OBJECT

 public:
  explicit Headline(Session& session, QWidget* parent = nullptr);

 private:
  struct Cell {
    QLabel* title;
    QLabel* value;
    QLabel* change;
  };
  void refresh();
  void show_state();

  Session& session_;
  std::vector<Cell> cells_;
  QLabel* name_;
  QLabel* state_;
};

}  // namespace ui
