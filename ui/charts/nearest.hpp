// The nearest of many points on a screen.
#pragma once

#include <QList>
#include <QPointF>
#include <optional>
#include <utility>
#include <vector>

namespace ui {

struct Hit {
  int index = 0;        // of the points that were given
  double distance = 0;  // in their unit
};

class Nearest {
 public:
  Nearest() = default;
  explicit Nearest(const QList<QPointF>& points);

  // The nearest that is no further away than `within`; of equally near ones the first.
  std::optional<Hit> at(const QPointF& place, double within) const;

 private:
  struct Entry {
    double x, y;
    int index;
  };
  std::vector<Entry> by_x_;
};

}  // namespace ui
