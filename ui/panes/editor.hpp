// The scenario's text, which can be edited: the forecast follows.
#pragma once

#include <QPlainTextEdit>
#include <QTimer>

#include "ui/core/session.hpp"

namespace ui {

class EditorPane : public QPlainTextEdit {
  Q_OBJECT

 public:
  explicit EditorPane(Session& session, QWidget* parent = nullptr);
  void show_line(int line, int column);

 protected:
  void changeEvent(QEvent* event) override;

 private:
  void load();
  void mark_problems();

  Session& session_;
  QTimer typed_;  // a forecast is asked for when typing pauses
};

}  // namespace ui
