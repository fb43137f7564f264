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

 protected:
  void resizeEvent(QResizeEvent* event) override;
  void changeEvent(QEvent* event) override;

 private:
  struct Cell {
    QWidget* box;
    QLabel* title;
    QLabel* value;
    QLabel* change;
  };
  Cell add_cell(double size, bool bold);
  void refresh();
  void show_measured();
  void show_state();
  void fit();  // hides the least important figures where there is no room

  Session& session_;
  std::vector<Cell> cells_;
  Cell measured_;  // hidden where nothing was measured
  QLabel* name_;
  QLabel* state_;
};

}  // namespace ui
