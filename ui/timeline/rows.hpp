// The rows of the timeline view: which lanes are shown where.
#pragma once

#include <QRegularExpression>
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
  bool head = false;                 // the first of its rank
  bool pinned = false;               // above the others, and does not scroll
};

// LaneChoice says which lanes are shown, and how.
struct LaneChoice {
  std::set<int> expanded;     // stages with a row per stream
  std::set<int> pinned;       // stages that stay in sight
  QRegularExpression filter;  // of lane_name(); an empty or broken one lets all through
};

inline constexpr int compute_row_height = 16;
inline constexpr int stream_row_height = 14;
inline constexpr int communication_row_height = 7;
inline constexpr int group_gap = 6;

// "stage 3 compute", "stage 3 tensor comm": what a filter is matched with.
QString lane_name(const LaneGroup& group, const Strip& strip);

// The rows of one rank, not yet placed: their `y` is 0. Empty: the filter leaves nothing.
std::vector<Row> rows_of(const LaneGroup& group, bool expanded,
                         const QRegularExpression& filter = {});

// Two rows per rank, computation and communication; of expanded stages one per stream; those of
// pinned stages first. Rows grow up to twice their height while all of them stay within `room` px.
std::vector<Row> make_rows(const Lanes& lanes, const LaneChoice& choice, int room = 0);
int total_height(const std::vector<Row>& rows);
int pinned_height(const std::vector<Row>& rows);  // 0: none is pinned

}  // namespace ui
