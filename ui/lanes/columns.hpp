// Columns of pixels of a lane: each shows the class that takes most of its time. Pure: no Qt.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ui/lanes/lanes.hpp"

namespace ui {

// The visible part of the time axis.
struct TimeWindow {
  double from = 0, to = 1;  // picoseconds
  double length() const { return to - from; }
};

// A column's colour: an ink, or one of these.
inline constexpr std::uint8_t column_empty = sim::ink_count;
inline constexpr std::uint8_t column_bubble = sim::ink_count + 1;

// The column's edge in picoseconds; neighbours share it.
std::int64_t column_edge(const TimeWindow& window, int width, int column);

// One entry per column: the ink that takes most of it, if all inks together fill half of it or
// more, or column_empty. Several strips are added up.
std::vector<std::uint8_t> ink_columns(std::span<const Strip* const> strips,
                                      const TimeWindow& window, int width);

// Empty columns of which at least half lies in a bubble become column_bubble.
void mark_bubbles(std::vector<std::uint8_t>& columns, const std::vector<Idle>& bubbles,
                  const TimeWindow& window);

}  // namespace ui
