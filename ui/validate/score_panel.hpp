// The errors of the rows that are shown: held-out and calibration rows, each in a line.
#pragma once

#include <QLabel>
#include <QWidget>
#include <array>

#include "sim/scores/score.hpp"

namespace ui {

class ScorePanel : public QWidget {
  Q_OBJECT

 public:
  static constexpr int columns = 7;
  explicit ScorePanel(QWidget* parent = nullptr);
  void show_scores(const sim::SetScore& held_out, const sim::SetScore& calibration);
  // "5.6 %", as it is shown.
  QString text(sim::RowUse use, int column) const;

 private:
  using Line = std::array<QLabel*, columns>;
  void fill(const Line& line, const sim::SetScore& score);
  std::array<Line, 2> lines_{};
};

}  // namespace ui
