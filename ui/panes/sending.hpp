// Traffic that a rank of the selected stage sends over time, by kind of communication.
#pragma once

#include <QWidget>

#include "ui/core/session.hpp"
#include "ui/panes/stacked_chart.hpp"

namespace ui {

class SendingPane : public QWidget {
  Q_OBJECT

 public:
  explicit SendingPane(Session& session, QWidget* parent = nullptr);
  void set_window(const TimeWindow& window);
  QSize sizeHint() const override { return {700, 180}; }

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  void load();

  Session& session_;
  TimeWindow window_;
  ResultPtr shown_;
  int stage_ = -1;
  sim::CounterSeries series_;  // MB/s
};

}  // namespace ui
