// The bar of a row of the waterfall, painted into its cell.
#pragma once

#include <QStyledItemDelegate>

namespace ui {

// What the bar of a row is: signed ones begin where the one before ends.
enum class WaterfallBar : int { whole, more, less, none };

// Roles of the cell.
inline constexpr int bar_kind_role = Qt::UserRole;      // WaterfallBar
inline constexpr int bar_from_role = Qt::UserRole + 1;  // seconds on the axis
inline constexpr int bar_to_role = Qt::UserRole + 2;

// Seconds that all cells show.
struct BarAxis {
  double begin = 0, end = 1;
  bool cut() const { return begin > 0; }  // it does not begin at zero: bars are marked as cut
};

// An axis on which causes of a difference can be seen: cut where it is small beside the step.
// `least`, `most`: of the ends of all signed bars, and of both whole ones.
BarAxis axis_of(double least, double most);

class WaterfallBarDelegate : public QStyledItemDelegate {
  Q_OBJECT

 public:
  using QStyledItemDelegate::QStyledItemDelegate;
  void set_axis(const BarAxis& axis) { axis_ = axis; }
  void paint(QPainter* painter, const QStyleOptionViewItem& option,
             const QModelIndex& index) const override;
  QSize sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const override;

 private:
  BarAxis axis_;
};

}  // namespace ui
