#include "sim/explain/forecast_run.hpp"

#include <algorithm>

namespace sim {

ForecastRank forecast_rank(const Record& record, const RecordedTrack& track) {
  const Program& program = record.programs[track.program];
  ForecastRank made;
  made.rank.rank = track.rank;
  std::vector<const Span*> spans;
  spans.reserve(track.spans.size());
  for (const Span& span : track.spans)
    if (span.end > span.begin) spans.push_back(&span);
  std::stable_sort(spans.begin(), spans.end(),
                   [](const Span* a, const Span* b) { return a->begin < b->begin; });
  for (const Span* span : spans) {
    const std::uint32_t op = span->op.value;
    DeviceActivity activity;
    activity.name = program.label[op].name;
    activity.stream = static_cast<std::uint32_t>(program.stream[op]);
    activity.begin = span->begin;
    activity.end = span->end;
    activity.kind = program.kind[op];
    activity.planned = static_cast<std::int32_t>(op);
    made.rank.device.push_back(activity);
    made.ready.push_back(span->active);
    made.last = std::max(made.last, span->end);
  }
  return made;
}

}  // namespace sim
