#include "sim/timeline/breakdown.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "sim/base/check.hpp"

namespace sim {
namespace {

struct Interval {
  TimePoint begin;
  TimePoint end;
};

// The time of the rank that no higher class has claimed yet: disjoint intervals in order.
class Unclaimed {
 public:
  explicit Unclaimed(TimePoint end) : left_{{TimePoint{}, end}} {}

  // Takes the parts that `claims` cover, and says how long they are. REQUIRES: `claims` in order of
  // begin. One pass over both lists, since the spans of a stream are in order.
  Duration take(std::span<const Interval> claims) {
    Duration taken{};
    std::vector<Interval> rest;
    rest.reserve(left_.size() + claims.size());
    std::size_t next = 0;
    for (const Interval& gap : left_) {
      TimePoint from = gap.begin;
      while (next < claims.size() && claims[next].end <= from)
        ++next;
      for (std::size_t i = next; i < claims.size() && claims[i].begin < gap.end; ++i) {
        const TimePoint begin = std::max(from, claims[i].begin);
        const TimePoint end = std::min(gap.end, claims[i].end);
        if (end <= begin) continue;
        if (begin > from) rest.push_back({from, begin});
        taken += end - begin;
        from = end;
      }
      if (from < gap.end) rest.push_back({from, gap.end});
    }
    left_ = std::move(rest);
    return taken;
  }

 private:
  std::vector<Interval> left_;
};

// What a rank was doing, as claims on its time; per stream, so that each list is in order.
struct Claims {
  std::array<std::vector<Interval>, stream_count> compute, tensor, data, transfer, wait;
  TimePoint last_end;
};

void add_communication(const Span& span, Stream stream, const Program& program, Claims& claims) {
  const auto lane = static_cast<std::size_t>(stream);
  const OpKind kind = program.kind[span.op.value];
  if (kind == OpKind::send || kind == OpKind::recv) {
    claims.wait[lane].push_back({span.begin, span.active});
    claims.transfer[lane].push_back({span.active, span.end});
    return;
  }
  const auto work = program.work[span.op.value];
  const GroupRole group =
      kind == OpKind::collective ? program.collectives[work].group : GroupRole::data;
  // These groups reach over pipeline stages: a rank that is through waits for the pipeline to
  // drain.
  const bool over_stages = group == GroupRole::world || group == GroupRole::tied_embedding;
  if (over_stages) claims.wait[lane].push_back({span.begin, span.active});
  (is_within_layers(group) ? claims.tensor : claims.data)[lane].push_back(
      {over_stages ? span.active : span.begin, span.end});
}

Claims claims_of(const RankTrack& track, const Program& program) {
  SIM_CHECK(track.spans.size() == program.size(), track.rank.value, track.spans.size());
  Claims claims;
  for (const Span& span : track.spans) {
    const OpKind kind = program.kind[span.op.value];
    claims.last_end = std::max(claims.last_end, span.end);
    if (runs_kernel(kind))
      claims.compute[static_cast<std::size_t>(program.stream[span.op.value])].push_back(
          {span.active, span.end});
    else if (kind != OpKind::host_copy)
      add_communication(span, program.stream[span.op.value], program, claims);
  }
  return claims;
}

Duration take_all(Unclaimed& time, const std::array<std::vector<Interval>, stream_count>& lanes) {
  Duration taken{};
  for (const std::vector<Interval>& lane : lanes)
    taken += time.take(lane);
  return taken;
}

constexpr std::array fields{&Breakdown::compute,      &Breakdown::exposed_tensor,
                            &Breakdown::exposed_data, &Breakdown::exposed_pipeline,
                            &Breakdown::bubble,       &Breakdown::host};

}  // namespace

Breakdown break_down(const RankTrack& track, const Program& program, TimePoint end,
                     bool has_pipeline) {
  const Claims claims = claims_of(track, program);
  SIM_CHECK(claims.last_end <= end, track.rank.value);
  Unclaimed time{end};
  Breakdown parts;
  parts.compute = take_all(time, claims.compute);
  parts.exposed_tensor = take_all(time, claims.tensor);
  parts.exposed_data = take_all(time, claims.data);
  parts.exposed_pipeline = take_all(time, claims.transfer);
  Duration& idle = has_pipeline ? parts.bubble : parts.exposed_data;
  idle += take_all(time, claims.wait);
  const std::array tail{Interval{claims.last_end, end}};
  idle += time.take(tail);
  const std::array all{Interval{TimePoint{}, end}};
  parts.host = time.take(all);
  SIM_CHECK(parts.total() == end.time_since_epoch(), track.rank.value);
  return parts;
}

Breakdown weighted_mean(std::span<const std::pair<Breakdown, std::uint64_t>> parts) {
  if (parts.empty()) return {};
  std::uint64_t weight = 0;
  for (const auto& [part, count] : parts)
    weight += count;
  SIM_CHECK(weight > 0);
  Breakdown mean;
  std::array<std::uint64_t, fields.size()> remainder{};
  for (std::size_t i = 0; i < fields.size(); ++i) {
    // 2^20 ranks times the 2^63 ps of the clock need more than 64 bits.
    unsigned __int128 sum = 0;
    for (const auto& [part, count] : parts)
      sum += static_cast<unsigned __int128>((part.*fields[i]).count()) * count;
    mean.*fields[i] = Duration{static_cast<std::int64_t>(sum / weight)};
    remainder[i] = static_cast<std::uint64_t>(sum % weight);
  }
  // Largest remainders first (Hamilton's method), so that the parts keep their sum.
  std::array<std::size_t, fields.size()> order{};
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return remainder[a] > remainder[b]; });
  Duration missing = parts.front().first.total() - mean.total();
  for (std::size_t i = 0; missing > Duration{0}; ++i, missing -= Duration{1})
    mean.*fields[order[i % order.size()]] += Duration{1};
  return mean;
}

}  // namespace sim
