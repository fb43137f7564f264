// A value that can be chosen, as a small button: filled when it holds, dotted when it is illegal.
#pragma once

#include <QToolButton>

namespace ui {

class Chip : public QToolButton {
  Q_OBJECT

 public:
  using QToolButton::QToolButton;
  QSize sizeHint() const override;

 protected:
  void paintEvent(QPaintEvent* event) override;
};

}  // namespace ui
