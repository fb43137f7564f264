// A cluster as boxes and links: one box per kind of part, the node framed, the fabric beside it;
// each link coloured by its use of capacity, with the number.
#pragma once

#include <QLineF>
#include <QRect>
#include <QWidget>
#include <optional>
#include <vector>

#include "ui/topology/loads.hpp"

namespace ui {

// Where the parts of a graph stand: the shortest way from the GPUs to the core of the fabric is a
// row, what lies beside it stands above the part that it is linked with.
struct PartPlace {
  int column = 0;
  int row = 0;  // 0: the way to the core
};
std::vector<PartPlace> places_of(const sim::TopologyGraph& graph);

class FabricDiagram : public QWidget {
  Q_OBJECT

 public:
  explicit FabricDiagram(QWidget* parent = nullptr);
  // `scale_end`: the use of capacity that has the last colour.
  void show_loads(LoadsPtr loads, double scale_end);
  void set_selected(std::optional<std::size_t> tier);
  // The tier of links at a place; nothing: none.
  std::optional<std::size_t> tier_at(QPointF at) const;
  // From the middle of one box's side to the other's.
  QLineF line_of(std::size_t tier) const;
  QSize sizeHint() const override { return minimumSizeHint(); }
  QSize minimumSizeHint() const override;

 Q_SIGNALS:
  void clicked(std::size_t tier);

 protected:
  void paintEvent(QPaintEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  bool event(QEvent* event) override;

 private:
  int columns() const;
  int rows() const;
  QRectF box_of(std::size_t part) const;
  bool is_of_node(std::size_t part) const;
  void paint_frame(QPainter& painter) const;
  void paint_box(QPainter& painter, std::size_t part) const;
  void paint_link(QPainter& painter, std::size_t tier) const;

  LoadsPtr loads_;
  double scale_end_ = 1;
  std::vector<PartPlace> places_;
  std::optional<std::size_t> selected_;
};

}  // namespace ui
