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
    if (i > 0 && rows[i].head) y += group_gap;
    rows[i].y = y;
    rows[i].height = static_cast<int>(rows[i].height * scale);
    y += rows[i].height;
  }
}

bool passes(const QRegularExpression& filter, const LaneGroup& group, const Strip& strip) {
  return filter.pattern().isEmpty() || !filter.isValid() ||
         filter.match(lane_name(group, strip)).hasMatch();
}

QString head_of(const LaneGroup& group) {
  return QString{"stage %1  ×%2"}
      .arg(group.stage)
      .arg(QString::fromStdString(sim::grouped(group.represents)));
}

}  // namespace

QString lane_name(const LaneGroup& group, const Strip& strip) {
  return QString{"stage %1 %2"}.arg(group.stage).arg(spaced(sim::word(strip.stream)));
}

std::vector<Row> rows_of(const LaneGroup& group, bool expanded, const QRegularExpression& filter) {
  std::vector<Row> rows;
  if (passes(filter, group, group.compute))
    rows.push_back({&group, {&group.compute}, {}, 0, compute_row_height, true, expanded});
  std::vector<const Strip*> strips;
  for (const Strip& strip : group.communication)
    if (passes(filter, group, strip)) strips.push_back(&strip);
  if (expanded) {
    for (const Strip* strip : strips)
      rows.push_back(
          {&group, {strip}, spaced(sim::word(strip->stream)), 0, stream_row_height, false, true});
  } else if (!strips.empty()) {
    rows.push_back({&group, std::move(strips), {}, 0, communication_row_height, false, false});
  }
  if (rows.empty()) return rows;
  rows.front().head = true;
  // Alone, a stream's row has the rank's label, and room for it.
  if (!rows.front().computes) rows.front().height = stream_row_height;
  rows.front().label = rows.front().computes || !expanded
                           ? head_of(group)
                           : head_of(group) + ' ' + rows.front().label;
  return rows;
}

std::vector<Row> make_rows(const Lanes& lanes, const LaneChoice& choice, int room) {
  std::vector<Row> rows;
  for (const bool pinned : {true, false})
    for (const LaneGroup& group : lanes.groups) {
      if (choice.pinned.contains(group.stage) != pinned) continue;
      for (Row& row : rows_of(group, choice.expanded.contains(group.stage), choice.filter)) {
        row.pinned = pinned;
        rows.push_back(std::move(row));
      }
    }
  place(rows, 1);
  const double scale =
      std::clamp(static_cast<double>(room) / std::max(1, total_height(rows)), 1.0, 2.0);
  place(rows, scale);
  return rows;
}

int total_height(const std::vector<Row>& rows) {
  return rows.empty() ? 0 : rows.back().y + rows.back().height + group_gap / 2;
}

int pinned_height(const std::vector<Row>& rows) {
  int height = 0;
  for (const Row& row : rows)
    if (row.pinned) height = row.y + row.height + group_gap / 2;
  return height;
}

}  // namespace ui
