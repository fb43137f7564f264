// The selection: one for all panes.
#pragma once

#include <QMetaType>
#include <cstdint>
#include <optional>

namespace ui {

struct OperatorAt {
  std::uint32_t track = 0;  // index into Timeline::tracks
  std::uint32_t op = 0;     // of its program
  bool operator==(const OperatorAt&) const = default;
};

// TimeArea is an area of the step, in picoseconds.
struct TimeArea {
  std::int64_t begin = 0, end = 0;
  bool operator==(const TimeArea&) const = default;
};

struct Selection {
  std::optional<OperatorAt> op;
  std::optional<TimeArea> area;
  int stage = 0;  // whose memory is shown
  bool operator==(const Selection&) const = default;
};

}  // namespace ui
