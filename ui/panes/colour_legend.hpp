// The meaning of the colours of the timeline: those that the newest forecast has.
#pragma once

#include <QWidget>
#include <vector>

#include "ui/core/session.hpp"

namespace ui {

class ColourLegend : public QWidget {
  Q_OBJECT

 public:
  explicit ColourLegend(Session& session, QWidget* parent = nullptr);
  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return sizeHint(); }

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  void refresh();
  int rows() const;

  Session& session_;
  std::vector<std::size_t> inks_;  // that occur
};

}  // namespace ui
