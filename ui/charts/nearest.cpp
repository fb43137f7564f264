#include "ui/charts/nearest.hpp"

#include <algorithm>
#include <cmath>

namespace ui {

Nearest::Nearest(const QList<QPointF>& points) {
  by_x_.reserve(static_cast<std::size_t>(points.size()));
  for (int i = 0; i < points.size(); ++i)
    if (std::isfinite(points[i].x()) && std::isfinite(points[i].y()))
      by_x_.push_back({points[i].x(), points[i].y(), i});
  std::sort(by_x_.begin(), by_x_.end(), [](const Entry& a, const Entry& b) {
    return a.x != b.x ? a.x < b.x : a.index < b.index;
  });
}

std::optional<Hit> Nearest::at(const QPointF& place, double within) const {
  std::optional<Hit> best;
  auto entry = std::lower_bound(by_x_.begin(), by_x_.end(), place.x() - within,
                                [](const Entry& one, double x) { return one.x < x; });
  for (; entry != by_x_.end() && entry->x <= place.x() + within; ++entry) {
    const double distance = std::hypot(entry->x - place.x(), entry->y - place.y());
    if (distance > within) continue;
    if (!best || distance < best->distance ||
        (distance == best->distance && entry->index < best->index))
      best = Hit{entry->index, distance};
  }
  return best;
}

}  // namespace ui
