// Sums over an area of the timeline. Pure: no Qt.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ui/lanes/lanes.hpp"

namespace ui {

struct NameSum {
  std::string name;
  std::string pass;
  std::uint64_t count = 0;  // operators that lie in the area, in part or whole
  std::int64_t time = 0;    // of theirs that lies in it, picoseconds
};

// Over all shown ranks, the longest sum first. `bubbles`: their time in the area.
struct AreaSums {
  std::vector<NameSum> names;
  std::int64_t bubbles = 0;
  std::size_t bubble_count = 0;  // that lie in the area, in part or whole
};
AreaSums area_sums(const sim::Plan& plan, const Lanes& lanes, std::int64_t from, std::int64_t to);

}  // namespace ui
