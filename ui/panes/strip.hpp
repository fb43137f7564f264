// The time of a GPU: the parts of the step as one bar, above that of the baseline.
#pragma once

#include <QWidget>

#include "ui/core/session.hpp"

namespace ui {

class BreakdownStrip : public QWidget {
  Q_OBJECT

 public:
  explicit BreakdownStrip(Session& session, QWidget* parent = nullptr);
  QSize sizeHint() const override { return {800, 72}; }

 protected:
  void paintEvent(QPaintEvent* event) override;
  bool event(QEvent* event) override;

 private:
  QRect bar(int index) const;
  void describe();

  Session& session_;
};

}  // namespace ui
