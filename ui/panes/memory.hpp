// Memory of the pipeline stages: a bar each against the device, and one stage over time by
// category.
#pragma once

#include <QWidget>

#include "sim/timeline/trace_counters.hpp"
#include "ui/core/session.hpp"
#include "ui/lanes/columns.hpp"

namespace ui {

class MemoryPane : public QWidget {
  Q_OBJECT

 public:
  explicit MemoryPane(Session& session, QWidget* parent = nullptr);
  // The part of the time axis that the timeline shows.
  void set_window(const TimeWindow& window);
  QSize sizeHint() const override { return {700, 180}; }

 protected:
  void paintEvent(QPaintEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  bool event(QEvent* event) override;

 private:
  struct Places {
    QRect bars, chart, legend;
  };
  Places places() const;
  void load();  // the series of the selected stage
  void paint_bars(QPainter& painter, const QRect& area);
  void paint_chart(QPainter& painter, const QRect& area);
  void paint_legend(QPainter& painter, const QRect& area);
  void choose_stage(int stage);
  QColor colour_of(std::size_t category) const;

  Session& session_;
  TimeWindow window_;
  ResultPtr shown_;
  int stage_ = -1;
  sim::CounterSeries series_;
  std::vector<std::size_t> used_;  // categories that are not always empty
};

}  // namespace ui
