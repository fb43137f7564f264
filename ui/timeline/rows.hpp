// Which lanes are shown where: the rows of the timeline view.
#pragma once

#include <QString>
#include <set>
#include <vector>

#include "ui/lanes/lanes.hpp"

namespace ui {

struct Row {
  const LaneGroup* group = nullptr;
  std::vector<const Strip*> strips;  // added up where it is more than one
  QString label;                     // in the gutter; empty: none
  int y = 0, height = 0;             // from the top of the first row
  bool computes = false;             // bubbles are marked in it
  bool expanded = false;             // a single stream, whose waits are drawn
};

inline constexpr int compute_row_height = 16;
inline constexpr int stream_row_height = 14;
inline constexpr int communication_row_height = 7;
inline constexpr int group_gap = 6;

// The rows of one rank, not yet placed: their `y` is 0.
std::vector<Row> rows_of(const LaneGroup& group, bool expanded);

// Two rows per rank, computation and communication; of the stages in `expanded` one per stream.
// Rows grow up to twice their height while all of them stay within `room` px.
std::vector<Row> make_rows(const Lanes& lanes, const std::set<int>& expanded, int room = 0);
int total_height(const std::vector<Row>& rows);

}  // namespace ui
