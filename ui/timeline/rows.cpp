#include "ui/timeline/rows.hpp"

#include "sim/report/numbers.hpp"

namespace ui {
namespace {

QString words(std::string_view text) {
  return QString::fromUtf8(text.data(), static_cast<qsizetype>(text.size())).replace('_', ' ');
}

}  // namespace

std::vector<Row> make_rows(const Lanes& lanes, const std::set<int>& expanded) {
  std::vector<Row> rows;
  int y = group_gap / 2;
  const auto add = [&](Row row) {
    row.y = y;
    y += row.height;
    rows.push_back(std::move(row));
  };
  for (const LaneGroup& group : lanes.groups) {
    const bool open = expanded.contains(group.stage);
    add({&group,
         {&group.compute},
         QString{"stage %1  ×%2"}
             .arg(group.stage)
             .arg(QString::fromStdString(sim::grouped(group.represents))),
         0,
         compute_row_height,
         true,
         open});
    if (open) {
      for (const Strip& strip : group.communication)
        add({&group, {&strip}, words(sim::word(strip.stream)), 0, stream_row_height, false, true});
    } else if (!group.communication.empty()) {
      std::vector<const Strip*> strips;
      for (const Strip& strip : group.communication)
        strips.push_back(&strip);
      add({&group, std::move(strips), {}, 0, communication_row_height, false, false});
    }
    y += group_gap;
  }
  return rows;
}

int total_height(const std::vector<Row>& rows) {
  return rows.empty() ? 0 : rows.back().y + rows.back().height + group_gap / 2;
}

}  // namespace ui
