// The cluster of the newest forecast as tiers of links, and the facts of the selected one.
#pragma once

#include <QTimer>
#include <QWidget>

#include "ui/core/background_job.hpp"
#include "ui/core/facts_table.hpp"
#include "ui/core/session.hpp"
#include "ui/topology/chart.hpp"
#include "ui/topology/diagram.hpp"

namespace ui {

class TopologyView : public QWidget {
  Q_OBJECT

 public:
  explicit TopologyView(Session& session, QWidget* parent = nullptr);

  const LoadsPtr& loads() const { return loads_; }
  TierChart& chart() { return *chart_; }
  FabricDiagram& diagram() { return *diagram_; }
  Q_INVOKABLE QString csv() const;  // a line per tier
  bool busy() const { return isVisible() && (job_.busy() || soon_.isActive()); }

 protected:
  void showEvent(QShowEvent* event) override;

 private:
  void ask();       // soon, if it is seen
  void work_out();  // in the background
  void take(LoadsPtr loads);
  void show_facts();

  Session& session_;
  TierChart* chart_;
  FabricDiagram* diagram_ = nullptr;
  FactsTable* facts_;
  LoadsPtr loads_;
  ResultPtr asked_;
  QTimer soon_;
  BackgroundJob job_;
};

}  // namespace ui
