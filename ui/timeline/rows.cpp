#include "ui/timeline/rows.hpp"

#include <algorithm>

#include "sim/report/numbers.hpp"
#include "ui/core/words.hpp"

namespace ui {
namespace {

// Stacks the rows, with a gap behind each rank.
void place(std::vector<Row>& rows, double scale) {
  int y = group_gap / 2;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i > 0 && rows[i].computes) y += group_gap;
    rows[i].y = y;
    rows[i].height = static_cast<int>(rows[i].height * scale);
    y += rows[i].height;
  }
}

}  // namespace

std::vector<Row> rows_of(const LaneGroup& group, bool expanded) {
  std::vector<Row> rows;
  rows.push_back({&group,
                  {&group.compute},
                  QString{"stage %1  ×%2"}
                      .arg(group.stage)
                      .arg(QString::fromStdString(sim::grouped(group.represents))),
                  0,
                  compute_row_height,
                  true,
                  expanded});
  if (expanded) {
    for (const Strip& strip : group.communication)
      rows.push_back(
          {&group, {&strip}, spaced(sim::word(strip.stream)), 0, stream_row_height, false, true});
  } else if (!group.communication.empty()) {
    std::vector<const Strip*> strips;
    for (const Strip& strip : group.communication)
      strips.push_back(&strip);
    rows.push_back({&group, std::move(strips), {}, 0, communication_row_height, false, false});
  }
  return rows;
}

std::vector<Row> make_rows(const Lanes& lanes, const std::set<int>& expanded, int room) {
  std::vector<Row> rows;
  for (const LaneGroup& group : lanes.groups)
    for (Row& row : rows_of(group, expanded.contains(group.stage)))
      rows.push_back(std::move(row));
  place(rows, 1);
  const double scale =
      std::clamp(static_cast<double>(room) / std::max(1, total_height(rows)), 1.0, 2.0);
  place(rows, scale);
  return rows;
}

int total_height(const std::vector<Row>& rows) {
  return rows.empty() ? 0 : rows.back().y + rows.back().height + group_gap / 2;
}

}  // namespace ui
