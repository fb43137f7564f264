// Changes that would shorten the step most: resources made infinitely fast, and parameters a little
// better.
#pragma once

#include <QTimer>
#include <QWidget>

#include "sim/sweep/sensitivity.hpp"
#include "ui/core/background_job.hpp"
#include "ui/core/session.hpp"

namespace ui {

class WhatHelps : public QWidget {
  Q_OBJECT

 public:
  explicit WhatHelps(Session& session, QWidget* parent = nullptr);
  QSize sizeHint() const override { return {700, 180}; }
  bool ready() const { return shown_ != nullptr; }

 protected:
  void paintEvent(QPaintEvent* event) override;
  void showEvent(QShowEvent* event) override;

 private:
  struct Gain {
    QString name, value;
    double share = 0;  // of the step that it would save
  };
  void ask_later();
  void ask();
  void take(const ResultPtr& of, const sim::Report& report);
  void take(const ResultPtr& of, const sim::Sensitivity& sensitivity);
  void paint_gains(QPainter& painter, const QRect& area, const QString& title,
                   const std::vector<Gain>& gains);

  Session& session_;
  QTimer pause_;
  BackgroundJob what_if_, sensitivity_;
  ResultPtr shown_;
  std::vector<Gain> infinite_, more_;
  QString problem_;
};

}  // namespace ui
