// The tiers of a cluster, one row each: every link coloured by its use, first node to last.
#pragma once

#include <QWidget>
#include <optional>
#include <vector>

#include "ui/core/theme.hpp"
#include "ui/topology/loads.hpp"

namespace ui {

// A colour of the scale, 0 to 1: the more, the further from the ground.
QColor use_colour(const Theme& theme, double use);

// "nic → leaf: at most 12 % of 50 GB/s is used, ...".
QString tier_text(const ClusterLoads& loads, std::size_t tier);

class TierChart : public QWidget {
  Q_OBJECT

 public:
  explicit TierChart(QWidget* parent = nullptr);
  void set_loads(LoadsPtr loads);
  double scale_end() const { return scale_end_; }  // of the colours: a use of capacity
  const std::optional<LinkAt>& selected() const { return selected_; }
  void select(std::optional<LinkAt> at);
  void select_busiest();  // of all links
  void set_empty_text(const QString& text);
  QSize sizeHint() const override { return {760, 240}; }
  QSize minimumSizeHint() const override;

 Q_SIGNALS:
  void selection_changed();

 protected:
  void paintEvent(QPaintEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  bool event(QEvent* event) override;

 private:
  QRect strip(std::size_t row) const;
  std::optional<LinkAt> link_at(QPoint at) const;
  LinkAt busiest_of(std::size_t row) const;
  void walk_tiers(int by);
  void walk_links(bool forward);
  void paint_row(QPainter& painter, std::size_t row);
  void paint_numbers(QPainter& painter, std::size_t row);
  void paint_mark(QPainter& painter, std::size_t row);
  void paint_scale(QPainter& painter);
  void paint_heads(QPainter& painter);

  LoadsPtr loads_;
  std::vector<std::size_t> shown_;  // tiers that carry anything
  QString idle_;                    // the others
  double scale_end_ = 1;
  std::optional<LinkAt> selected_;
  QString empty_text_;
};

}  // namespace ui
