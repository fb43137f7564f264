// The cluster of the newest forecast as tiers of links, and the facts of the selected one.
#pragma once

#include <QTableWidget>
#include <QTimer>
#include <QWidget>
#include <thread>

#include "ui/core/session.hpp"
#include "ui/topology/chart.hpp"

namespace ui {

class TopologyView : public QWidget {
  Q_OBJECT

 public:
  explicit TopologyView(Session& session, QWidget* parent = nullptr);
  ~TopologyView() override;

  const LoadsPtr& loads() const { return loads_; }
  TierChart& chart() { return *chart_; }
  Q_INVOKABLE QString csv() const;  // a line per tier
  bool busy() const { return isVisible() && (working_ || soon_.isActive()); }

 protected:
  void showEvent(QShowEvent* event) override;

 private:
  void ask();       // soon, if it is seen
  void work_out();  // on a thread of its own
  void take(LoadsPtr loads, int number);
  void show_facts();

  Session& session_;
  TierChart* chart_;
  QTableWidget* facts_;
  LoadsPtr loads_;
  ResultPtr asked_;
  QTimer soon_;
  bool working_ = false;
  int number_ = 0;       // of the newest question
  std::jthread thread_;  // last: it uses the others
};

}  // namespace ui
