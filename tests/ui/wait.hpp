// Lets the event loop run until something holds; no test looks at a clock beyond a last resort.
#pragma once

#include <QCoreApplication>
#include <QElapsedTimer>
#include <QEventLoop>
#include <QTimer>
#include <functional>

namespace ui::test {

// False after a minute: the test then fails instead of hanging.
inline bool until(const std::function<bool()>& holds) {
  QElapsedTimer timer;
  timer.start();
  QTimer wake;  // what waits for events sees one
  wake.start(20);
  while (!holds()) {
    if (timer.elapsed() > 60'000) return false;
    QCoreApplication::processEvents(QEventLoop::AllEvents | QEventLoop::WaitForMoreEvents);
  }
  return true;
}

}  // namespace ui::test
