#include "sim/timeline/collective_log.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/check.hpp"
#include "sim/timeline/breakdown.hpp"

namespace sim {
namespace {

// When the rank runs kernels: disjoint, in order.
std::vector<Interval> kernel_times(const RankTrack& track, const Program& program) {
  std::vector<Interval> all;
  for (const Span& span : track.spans)
    if (runs_kernel(program.kind[span.op.value])) all.push_back({span.active, span.end});
  std::sort(all.begin(), all.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::vector<Interval> merged;
  for (const Interval& one : all) {
    if (!merged.empty() && one.begin <= merged.back().end) {
      merged.back().end = std::max(merged.back().end, one.end);
    } else {
      merged.push_back(one);
    }
  }
  return merged;
}

Duration shared(std::span<const Interval> kernels, const Interval& within) {
  Duration sum{};
  auto next = std::partition_point(kernels.begin(), kernels.end(),
                                   [&](const Interval& k) { return k.end <= within.begin; });
  for (; next != kernels.end() && next->begin < within.end; ++next)
    sum += std::min(next->end, within.end) - std::max(next->begin, within.begin);
  return sum;
}

// When what a collective sends was made, as operators are gone through in the order of issue.
class LastWrites {
 public:
  explicit LastWrites(const Program& program) : program_{program}, at_(program.buffers.size()) {}

  // The last write of a collective's input; in place, of the buffer itself. Without buffers: the
  // end of what it waits for.
  TimePoint before(OpId op, const std::vector<Span>& spans) const {
    TimePoint last{};
    if (program_.buffer_uses(op).empty()) {
      for (const OpId earlier : program_.dependencies(op))
        last = std::max(last, spans[earlier.value].end);
      return last;
    }
    const bool in_place = !has(op, Role::input);
    for (const BufferUse& use : program_.buffer_uses(op))
      if (in_place || use.role == Role::input) last = std::max(last, at_[use.buffer.value]);
    return last;
  }
  // Gathered weights are those that were there: gathered again, they are as old as before.
  void write(const Span& span) {
    if (program_.action[span.op.value] == Action::gather_weights) return;
    for (const BufferUse& use : program_.buffer_uses(span.op))
      if (use.access == Access::write) at_[use.buffer.value] = span.end;
  }

 private:
  bool has(OpId op, Role role) const {
    const auto uses = program_.buffer_uses(op);
    return std::any_of(uses.begin(), uses.end(),
                       [&](const BufferUse& use) { return use.role == role; });
  }

  const Program& program_;
  std::vector<TimePoint> at_;
};

bool is_of_bucket(Action action) {
  return action >= Action::gather_weights && action <= Action::weights_from_host;
}

CollectiveEntry entry_of(const Plan& plan, const RankTrack& track, const Span& span) {
  const Program& program = plan.program(track.rank);
  const std::size_t i = span.op.value;
  const Collective& collective = program.collectives[program.work[i]];
  CollectiveEntry entry{.op = span.op,
                        .name = program.name(span.op),
                        .kind = collective.kind,
                        .group = collective.group,
                        .bytes = collective.bytes,
                        .launched = span.begin,
                        .active = span.active,
                        .done = span.end};
  if (is_of_bucket(program.action[i])) entry.bucket = program.subject[i];
  const std::uint32_t group =
      plan.group_of[track.rank.value][static_cast<std::size_t>(collective.group)];
  if (group != Plan::no_group) entry.ranks = static_cast<int>(plan.groups[group].ranks.size());
  return entry;
}

// Messages one after another, and the bytes of all of them.
struct Ring {
  double messages = 0, bytes = 0;
};
std::optional<Ring> ring_of(const CollectiveEntry& entry) {
  const double others = entry.ranks - 1;
  const double part = static_cast<double>(entry.bytes.count()) / entry.ranks;
  if (entry.ranks < 2) return std::nullopt;
  switch (entry.kind) {
    case CollectiveKind::all_reduce:
      return Ring{2 * others, 2 * others * part};
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
      return Ring{others, others * part};
    default:
      return std::nullopt;
  }
}

// Sums for a fit of the equation messages * alpha + bytes * gap = time, each divided by its time.
struct WaitSums {
  double mm = 0, mb = 0, bb = 0, m = 0, b = 0;
  double least = INFINITY, most = 0;  // bytes
  std::size_t count = 0;
  void add(const Ring& ring, double seconds) {
    const double x = ring.messages / seconds, y = ring.bytes / seconds;
    mm += x * x, mb += x * y, bb += y * y, m += x, b += y;
    least = std::min(least, ring.bytes), most = std::max(most, ring.bytes);
    ++count;
  }
};

}  // namespace

std::vector<CollectiveEntry> log_collectives(const Plan& plan, const RankTrack& track) {
  const Program& program = plan.program(track.rank);
  SIM_CHECK(track.spans.size() == program.size(), track.rank.value, track.spans.size());
  const std::vector<Interval> kernels = kernel_times(track, program);
  std::vector<CollectiveEntry> entries;
  LastWrites writes{program};
  for (const Span& span : track.spans) {
    if (program.kind[span.op.value] == OpKind::collective) {
      CollectiveEntry entry = entry_of(plan, track, span);
      entry.ready = std::min(writes.before(span.op, track.spans), entry.launched);
      entry.hidden = shared(kernels, {entry.launched, entry.done});
      entries.push_back(std::move(entry));
    }
    writes.write(span);
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.launched < b.launched; });
  return entries;
}

std::optional<AlphaBeta> fit_alpha_beta(std::span<const CollectiveEntry> entries) {
  WaitSums sums;
  for (const CollectiveEntry& entry : entries) {
    const std::optional<Ring> ring = ring_of(entry);
    const double seconds = to_seconds(entry.done - entry.active);
    if (ring && entry.hidden == Duration{} && seconds > 0) sums.add(*ring, seconds);
  }
  if (sums.count < 2 || sums.most <= sums.least) return std::nullopt;
  const double determinant = sums.mm * sums.bb - sums.mb * sums.mb;
  double alpha = (sums.m * sums.bb - sums.b * sums.mb) / determinant;
  double gap = (sums.b * sums.mm - sums.m * sums.mb) / determinant;
  if (!(alpha >= 0)) alpha = 0, gap = sums.b / sums.bb;
  if (!(gap > 0)) return std::nullopt;
  return AlphaBeta{duration_from_seconds(alpha), Bandwidth::bytes_per_second(1 / gap), sums.count};
}

std::optional<Duration> time_of(const AlphaBeta& model, const CollectiveEntry& entry) {
  const std::optional<Ring> ring = ring_of(entry);
  if (!ring) return std::nullopt;
  return duration_from_seconds(ring->messages * to_seconds(model.alpha) +
                               ring->bytes / model.beta.in_bytes_per_second());
}

}  // namespace sim
