// What explain finds of a run, in tabs: why it is slower than its forecast, its kernels on the
// roofline, where the time of a step goes.
#pragma once

#include <QLabel>
#include <QTabWidget>

#include "ui/explain/roofline_chart.hpp"
#include "ui/explain/states_pane.hpp"
#include "ui/explain/waterfall_tree.hpp"

namespace ui {

class ExplainPane : public QTabWidget {
  Q_OBJECT

 public:
  explicit ExplainPane(QWidget* parent = nullptr);
  // Null: `why_not` is shown in its place.
  void show_explanation(ExplanationPtr explanation, const QString& why_not);
  const ExplanationPtr& explanation() const { return explanation_; }
  // Beside the sentence of the cause: which of its operators is shown.
  void set_place(const QString& text);
  WaterfallTree& waterfall() { return *tree_; }
  RooflineChart& roofline() { return *roofline_; }
  StatesPane& states() { return *states_; }
  QString sentence() const { return sentence_->text(); }

 private:
  QWidget* make_waterfall();
  QWidget* make_roofline();
  void show_sentence();
  void show_point();

  ExplanationPtr explanation_;
  QString why_not_, place_;
  WaterfallTree* tree_ = nullptr;
  RooflineChart* roofline_ = nullptr;
  StatesPane* states_ = nullptr;
  QLabel *sentence_ = nullptr, *point_ = nullptr;
};

// What shows that run and forecast are not the same job, as rich text; empty: nothing does.
QString differences_text(const sim::Explanation& explanation);

}  // namespace ui
