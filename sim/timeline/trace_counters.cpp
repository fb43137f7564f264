#include "sim/timeline/trace_counters.hpp"

#include <algorithm>

namespace sim {
namespace {

struct CounterChange {
  TimePoint at;
  std::uint32_t lane;
  std::int64_t amount;
};

// Sums of the changes, lane by lane, at every instant with one; `unit` units make one of the
// result.
CounterSeries accumulate(std::vector<CounterChange> changes, std::vector<std::string_view> names,
                         std::array<std::int64_t, counter_width> start, std::int64_t unit) {
  std::stable_sort(changes.begin(), changes.end(),
                   [](const CounterChange& a, const CounterChange& b) { return a.at < b.at; });
  CounterSeries series{std::move(names), {}};
  const auto add_point = [&](TimePoint at) {
    CounterPoint point{at, start};
    for (std::int64_t& value : point.values)
      value /= unit;
    if (series.points.empty() || series.points.back().values != point.values)
      series.points.push_back(point);
  };
  if (changes.empty() || changes.front().at > TimePoint{}) add_point(TimePoint{});
  for (std::size_t i = 0; i < changes.size();) {
    const TimePoint at = changes[i].at;
    for (; i < changes.size() && changes[i].at == at; ++i)
      start[changes[i].lane] += changes[i].amount;
    add_point(at);
  }
  return series;
}

enum Lane : std::uint32_t { tensor, data, pipeline };

}  // namespace

double sent_share(CollectiveKind kind, double ranks) {
  switch (kind) {
    case CollectiveKind::all_reduce:
      return 2 * (ranks - 1) / ranks;
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_gather:
    case CollectiveKind::all_to_all:
      return (ranks - 1) / ranks;
    case CollectiveKind::broadcast:
    case CollectiveKind::reduce:
    case CollectiveKind::ring_shift:
      return 1;
    case CollectiveKind::barrier:
      return 0;
  }
  return 0;
}

CounterSeries memory_over_time(const RankTrack& track, const Program& program) {
  std::array<std::int64_t, counter_width> start{};
  std::vector<bool> alive(program.buffers.size(), false);
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const Buffer& buffer = program.buffers[i];
    if (!buffer.persistent) continue;
    alive[i] = true;
    start[static_cast<std::size_t>(buffer.category)] += buffer.size.count();
  }
  std::vector<CounterChange> changes;
  for (const Span& span : track.spans) {
    for (const BufferUse& use : program.buffer_uses(span.op)) {
      const Buffer& buffer = program.buffers[use.buffer.value];
      const auto lane = static_cast<std::uint32_t>(buffer.category);
      if (buffer.persistent) continue;
      if (use.access == Access::write && !alive[use.buffer.value]) {
        alive[use.buffer.value] = true;
        changes.push_back({span.begin, lane, buffer.size.count()});
      } else if (use.access == Access::free && alive[use.buffer.value]) {
        alive[use.buffer.value] = false;
        changes.push_back({span.end, lane, -buffer.size.count()});
      }
    }
  }
  std::vector<std::string_view> names;
  for (const auto& category : words_of(BufferCategory{}))
    names.push_back(category.text);
  constexpr std::int64_t mebibyte = 1 << 20;
  return accumulate(std::move(changes), std::move(names), start, mebibyte);
}

CounterSeries sending_over_time(const RankTrack& track, const Plan& plan) {
  const Program& program = plan.program(track.rank);
  std::vector<CounterChange> changes;
  const auto add = [&](const Span& span, std::uint32_t lane, double bytes) {
    const double seconds = to_seconds(span.end - span.active);
    if (seconds <= 0) return;
    const auto rate = static_cast<std::int64_t>(bytes / seconds);
    changes.push_back({span.active, lane, rate});
    changes.push_back({span.end, lane, -rate});
  };
  for (const Span& span : track.spans) {
    const std::uint32_t work = program.work[span.op.value];
    const OpKind kind = program.kind[span.op.value];
    if (kind == OpKind::send) {
      add(span, pipeline, static_cast<double>(program.transfers[work].bytes.count()));
    } else if (kind == OpKind::collective) {
      const Collective& call = program.collectives[work];
      const std::uint32_t group =
          plan.group_of[track.rank.value][static_cast<std::size_t>(call.group)];
      if (group == Plan::no_group) continue;
      const auto ranks = static_cast<double>(plan.groups[group].ranks.size());
      add(span, is_within_layers(call.group) ? tensor : data,
          static_cast<double>(call.bytes.count()) * sent_share(call.kind, ranks));
    }
  }
  if (changes.empty()) return {};
  constexpr std::int64_t megabyte = 1'000'000;
  return accumulate(std::move(changes), {"tensor", "data", "pipeline"}, {}, megabyte);
}

}  // namespace sim
