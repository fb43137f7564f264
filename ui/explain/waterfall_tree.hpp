// The waterfall of a run against its forecast: the forecast, its causes with their operators, and
// what was measured, each with its bar on one axis of time.
#pragma once

#include <QTreeWidget>
#include <memory>
#include <optional>

#include "sim/explain/explanation.hpp"

namespace ui {

using ExplanationPtr = std::shared_ptr<const sim::Explanation>;

// A cause, or one of its items; nothing: all of them.
struct CauseAt {
  std::size_t part = 0;  // of Waterfall::parts
  std::optional<std::size_t> item{};
  bool operator==(const CauseAt&) const = default;
};

class WaterfallTree : public QTreeWidget {
  Q_OBJECT

 public:
  enum Column : int { cause, bar, time, of_step, rate, column_count };

  explicit WaterfallTree(QWidget* parent = nullptr);
  // Null, or without a forecast: nothing is shown.
  void show_waterfall(ExplanationPtr explanation);
  std::optional<CauseAt> selected() const;
  void select(std::optional<CauseAt> at);
  Q_INVOKABLE QString csv() const;  // cause, item, picoseconds: exact

 Q_SIGNALS:
  void selected_changed();
  void activated_again();  // Enter, or a double click: on to the next operator

 protected:
  void changeEvent(QEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  void fill();
  void fit_columns();
  QTreeWidgetItem* add(QTreeWidgetItem* parent, const QString& name, sim::Duration time,
                       const QString& help);

  ExplanationPtr explanation_;
};

}  // namespace ui
