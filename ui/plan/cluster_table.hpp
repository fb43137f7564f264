// Clusters to tick, each with the price of a GPU-hour there.
#pragma once

#include <QTreeWidget>
#include <vector>

#include "ui/plan/plan_question.hpp"

namespace ui {

class ClusterTable : public QTreeWidget {
  Q_OBJECT

 public:
  explicit ClusterTable(QWidget* parent = nullptr);
  std::vector<ClusterAsked> ticked() const;
  // Ticks a cluster, by name or file; one that is not listed is added. An empty price leaves the
  // one that is there.
  void tick(const std::string& name, const QString& price);
  void tick_none();
  QSize sizeHint() const override;

 Q_SIGNALS:
  void submitted();  // Enter on a row

 protected:
  void keyPressEvent(QKeyEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  enum Column { cluster, price };
  QTreeWidgetItem* add(const QString& name);
};

}  // namespace ui
