// One layout of a search: what it costs and why, and what can be made of it.
#pragma once

#include <QLabel>
#include <QPushButton>
#include <QToolButton>
#include <QWidget>

#include "sim/interop/handover.hpp"
#include "ui/choose/layout_job.hpp"
#include "ui/charts/stacked_bars.hpp"

namespace ui {

class LayoutPane : public QWidget {
  Q_OBJECT

 public:
  explicit LayoutPane(QWidget* parent = nullptr);
  void clear(const QString& next_step);
  // A layout whose facts are on their way.
  void show_waiting(const QString& title);
  // `other`: what it is compared with, or null.
  void show(LayoutFactsPtr facts, LayoutFactsPtr other, const QString& other_name, bool pinned);
  void show_problem(const QString& problem);
  const LayoutFactsPtr& facts() const { return facts_; }

 Q_SIGNALS:
  void pin_asked();
  void open_asked();
  void export_asked(sim::Target target);

 protected:
  void changeEvent(QEvent* event) override;

 private:
  void refresh();
  void show_parts(bool shown);

  QLabel* title_;
  QLabel* figures_;
  QWidget* parts_;  // all below
  QPushButton* pin_;
  QPushButton* open_;
  QToolButton* export_;
  QLabel* why_;
  QLabel* step_title_;
  StackedBars* step_;
  StackedBars* memory_;
  QLabel* fields_;
  LayoutFactsPtr facts_, other_;
  QString other_name_;
  bool pinned_ = false;
};

}  // namespace ui
