#include "sim/timeline/breakdown.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "sim/base/check.hpp"

namespace sim {
namespace {

// The time of the rank that no higher class has claimed yet: disjoint intervals in order.
class Unclaimed {
 public:
  explicit Unclaimed(TimePoint end) : left_{{TimePoint{}, end}} {}

  // Takes the parts that `claims` cover, and hands each to `taken`. REQUIRES: `claims` in order of
  // begin. One pass over both lists, since the spans of a stream are in order.
  template <class Taken>
  void take(std::span<const Interval> claims, Taken&& taken) {
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
        taken(Interval{begin, end});
        from = end;
      }
      if (from < gap.end) rest.push_back({from, gap.end});
    }
    left_ = std::move(rest);
  }

 private:
  std::vector<Interval> left_;
};

// Claims are a rank's activities, as claims on its time; per stream, so that each list is in order.
struct Claims {
  using Lanes = std::array<std::vector<Interval>, stream_count>;
  Lanes compute, tensor, context, expert, data, transfer, wait;
  Lanes& of(GroupRole group) {
    if (group == GroupRole::tensor) return tensor;
    if (is_of_context(group)) return context;
    return is_within_layers(group) ? expert : data;
  }
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
  const bool over_stages =
      group == GroupRole::world || group == GroupRole::local || group == GroupRole::tied_embedding;
  if (over_stages) claims.wait[lane].push_back({span.begin, span.active});
  claims.of(group)[lane].push_back({over_stages ? span.active : span.begin, span.end});
}

Claims claims_of(const RankTrack& track, const Program& program) {
  SIM_CHECK(track.spans.size() == program.size(), track.rank.value, track.spans.size());
  Claims claims;
  for (const Span& span : track.spans) {
    const OpKind kind = program.kind[span.op.value];
    claims.last_end = std::max(claims.last_end, span.end);
    if (is_of_host(kind)) continue;
    if (runs_by_itself(kind))
      claims.compute[static_cast<std::size_t>(program.stream[span.op.value])].push_back(
          {span.active, span.end});
    else
      add_communication(span, program.stream[span.op.value], program, claims);
  }
  return claims;
}

// Hands every part of the rank's time to `taken`, with the member of Breakdown that it belongs to.
template <class Taken>
void split(const RankTrack& track, const Program& program, TimePoint end, bool has_pipeline,
           Taken&& taken) {
  const Claims claims = claims_of(track, program);
  SIM_CHECK(claims.last_end <= end, track.rank.value);
  Unclaimed time{end};
  const auto take = [&](std::span<const Interval> some, Duration Breakdown::*part) {
    time.take(some, [&](Interval interval) { taken(part, interval); });
  };
  const auto take_all = [&](const auto& lanes, Duration Breakdown::*part) {
    for (const std::vector<Interval>& lane : lanes)
      take(lane, part);
  };
  take_all(claims.compute, &Breakdown::compute);
  take_all(claims.tensor, &Breakdown::exposed_tensor);
  take_all(claims.context, &Breakdown::exposed_context);
  take_all(claims.expert, &Breakdown::exposed_expert);
  take_all(claims.data, &Breakdown::exposed_data);
  take_all(claims.transfer, &Breakdown::exposed_pipeline);
  const auto idle = has_pipeline ? &Breakdown::bubble : &Breakdown::exposed_data;
  take_all(claims.wait, idle);
  take(std::array{Interval{claims.last_end, end}}, idle);
  take(std::array{Interval{TimePoint{}, end}}, &Breakdown::host);
}

constexpr std::array fields{&Breakdown::compute,         &Breakdown::exposed_tensor,
                            &Breakdown::exposed_context, &Breakdown::exposed_expert,
                            &Breakdown::exposed_data,    &Breakdown::exposed_pipeline,
                            &Breakdown::bubble,          &Breakdown::host};

}  // namespace

Breakdown break_down(const RankTrack& track, const Program& program, TimePoint end,
                     bool has_pipeline) {
  Breakdown parts;
  split(track, program, end, has_pipeline, [&](Duration Breakdown::*part, Interval interval) {
    parts.*part += interval.end - interval.begin;
  });
  SIM_CHECK(parts.total() == end.time_since_epoch(), track.rank.value);
  return parts;
}

std::vector<Interval> intervals_of(Duration Breakdown::*part, const RankTrack& track,
                                   const Program& program, TimePoint end, bool has_pipeline) {
  std::vector<Interval> found;
  split(track, program, end, has_pipeline, [&](Duration Breakdown::*of, Interval interval) {
    if (of == part) found.push_back(interval);
  });
  std::sort(found.begin(), found.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  return found;
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
