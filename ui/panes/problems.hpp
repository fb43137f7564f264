// Problems of the scenario: line, column, and where a name was near, the fix as a button.
#pragma once

#include <QWidget>

#include "ui/core/session.hpp"

class QVBoxLayout;

namespace ui {

class ProblemsPane : public QWidget {
  Q_OBJECT

 public:
  explicit ProblemsPane(Session& session, QWidget* parent = nullptr);

 Q_SIGNALS:
  void show_line(int line, int column);  // of the scenario's text

 protected:
  void changeEvent(QEvent* event) override;

 private:
  void refresh();
  QWidget* line_of(const sim::Problem& problem);
  void fix(const sim::Problem& problem, const std::string& wrong, const std::string& right);

  Session& session_;
  QVBoxLayout* column_;
};

// The wrong word of a problem and the nearest valid one: "unknown key 'a', did you mean 'b'".
struct Replacement {
  std::string wrong, right;
};
std::optional<Replacement> replacement_of(const sim::Problem& problem);

// The text with the wrong word at a line and column (1-based) replaced; as it was, if it is not
// there.
std::string replaced(const std::string& text, int line, int column, const Replacement& by);

}  // namespace ui
