// The state of the window as JSON, for tests that compare it with the command line.
#pragma once

#include <QByteArray>
#include <QElapsedTimer>
#include <QObject>
#include <QString>
#include <QTimer>

#include "ui/window/main_window.hpp"

namespace ui {

// The session, the report as `stepcast simulate -o json --no-what-if` prints it, the visible part
// of the time axis, and where each control lies on the screen, by its accessible name.
QByteArray state_json(MainWindow& window);

// Writes it to a file shortly after each change. The file is replaced as a whole.
class StateFile : public QObject {
  Q_OBJECT

 public:
  StateFile(MainWindow& window, QString path);

 private:
  void write();

  MainWindow& window_;
  QString path_;
  QTimer soon_;
  QTimer beat_;  // finds out how long the event loop was held up
  QElapsedTimer since_beat_;
  qint64 longest_gap_ms_ = 0;
};

}  // namespace ui
