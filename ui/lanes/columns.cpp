#include "ui/lanes/columns.hpp"

#include <algorithm>
#include <cmath>

namespace ui {

std::int64_t column_edge(const TimeWindow& window, int width, int column) {
  return static_cast<std::int64_t>(
      std::llround(window.from + window.length() * column / std::max(1, width)));
}

std::vector<std::uint8_t> ink_columns(std::span<const Strip* const> strips,
                                      const TimeWindow& window, int width) {
  std::vector<std::uint8_t> columns(static_cast<std::size_t>(std::max(0, width)), column_empty);
  std::int64_t from = column_edge(window, width, 0);
  for (int column = 0; column < width; ++column) {
    const std::int64_t to = std::max(from + 1, column_edge(window, width, column + 1));
    InkTimes times{};
    for (const Strip* strip : strips) {
      const InkTimes own = ink_times(*strip, from, to);
      for (std::size_t ink = 0; ink < times.size(); ++ink)
        times[ink] += own[ink];
    }
    std::int64_t all = 0;
    for (const std::int64_t time : times)
      all += time;
    if (2 * all >= to - from)
      columns[static_cast<std::size_t>(column)] =
          static_cast<std::uint8_t>(std::max_element(times.begin(), times.end()) - times.begin());
    from = to;
  }
  return columns;
}

void mark_bubbles(std::vector<std::uint8_t>& columns, const std::vector<Idle>& bubbles,
                  const TimeWindow& window) {
  const int width = static_cast<int>(columns.size());
  std::size_t next = 0;
  std::int64_t from = column_edge(window, width, 0);
  for (int column = 0; column < width; ++column) {
    const std::int64_t to = std::max(from + 1, column_edge(window, width, column + 1));
    while (next < bubbles.size() && bubbles[next].end <= from)
      ++next;
    std::int64_t idle = 0;
    for (std::size_t i = next; i < bubbles.size() && bubbles[i].begin < to; ++i)
      idle += std::min(to, bubbles[i].end) - std::max(from, bubbles[i].begin);
    std::uint8_t& shown = columns[static_cast<std::size_t>(column)];
    if (shown == column_empty && 2 * idle >= to - from) shown = column_bubble;
    from = to;
  }
}

}  // namespace ui
