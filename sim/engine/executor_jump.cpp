// The executor's jump over whole periods of a steady state (JUMP.md).
#include <algorithm>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/base/random.hpp"
#include "sim/engine/executor.hpp"

namespace sim {
namespace {

constexpr std::uint32_t never = UINT32_MAX;
// A simulation that recurs this often without a period to jump over is left alone.
constexpr std::uint32_t most_vain_recurrences = 16;

std::uint64_t hash_of(const std::vector<std::uint64_t>& words) {
  std::uint64_t hash = words.size();
  for (const std::uint64_t word : words)
    hash = mix64(hash ^ word);
  return hash;
}

// Words that say all about a state, in a fixed order, with times relative to an instant.
class Words {
 public:
  explicit Words(TimePoint now) : now_{now} {}
  void add(std::uint64_t value) { all_.push_back(value); }
  void add(std::int64_t value) { all_.push_back(static_cast<std::uint64_t>(value)); }
  void add(TimePoint time) { add((time - now_).count()); }
  std::vector<std::uint64_t> take() { return std::move(all_); }

 private:
  TimePoint now_;
  std::vector<std::uint64_t> all_;
};

template <class Item>
void add_multiple(Item& sum, const Item& before, std::uint64_t times) {
  sum += static_cast<std::int64_t>(times) * (sum - before);
}
void add_multiple(std::uint64_t& sum, std::uint64_t before, std::uint64_t times) {
  sum += times * (sum - before);
}

Span later(const Span& span, OpId op, Duration by) {
  return {op, span.begin + by, span.active + by, span.end + by};
}

}  // namespace

void Executor::prepare_jumps() {
  next_milestone_ = never;
  // Every kernel has a time of its own; messages one by one have a state that is not looked at.
  if (!input_.jump || input_.jitter > 0 || stepwise_ != nullptr || slots_.empty()) return;
  milestones_ = milestones(program_of(0), index_of(0));
  find_next_milestone();
}

void Executor::find_next_milestone() {
  const auto next =
      std::upper_bound(milestones_.begin(), milestones_.end(), slots_[0].done[compute]);
  next_milestone_ = next == milestones_.end() ? never : *next;
}

// Called between two instants.
void Executor::look_for_period() {
  find_next_milestone();
  Snapshot current = take_snapshot();
  const std::deque<Snapshot>& all = snapshots_.all();
  for (auto earlier = all.rbegin(); earlier != all.rend(); ++earlier) {
    if (!current.same_state(*earlier)) continue;
    if (const std::uint64_t periods = periods_ahead(*earlier, current); periods > 0) {
      jump(*earlier, current, periods);
      snapshots_.clear();
      find_next_milestone();
      return;
    }
    if (++vain_recurrences_ < most_vain_recurrences) break;
    next_milestone_ = never;
    snapshots_.clear();
    return;
  }
  snapshots_.add(std::move(current));
}

// Periods that pass like the one between the two.
std::uint64_t Executor::periods_ahead(const Snapshot& before, const Snapshot& current) const {
  const Duration period = current.at - before.at;
  std::uint64_t periods = UINT64_MAX;
  for (std::uint32_t slot = 0; slot < slots_.size() && periods > 0; ++slot) {
    const SlotMark& begin = before.slots[slot];
    const SlotMark& end = current.slots[slot];
    const Repetitions ahead =
        repetitions(program_of(slot), index_of(slot), lane_of(slot), begin, end);
    periods = std::min(periods, host_recurs(begin, end, period, ahead.issue) ? ahead.times : 0);
  }
  return periods;
}

// A host that waits for the device must stand where it stood. One that never does may be ahead by
// more each period: what was issued in time then is issued in time from now on.
bool Executor::host_recurs(const SlotMark& begin, const SlotMark& end, Duration period,
                           std::int64_t issue) {
  if (begin.host_phase != end.host_phase) return end.host_begun - begin.host_begun == period;
  if (end.host_begun != begin.host_begun) return false;
  return issue == period.count() || (issue < period.count() && begin.host_waits == end.host_waits);
}

Snapshot Executor::take_snapshot() const {
  Snapshot snapshot;
  snapshot.at = now();
  snapshot.totals = totals_;
  snapshot.pattern_bytes = pattern_bytes_;
  snapshot.pattern_busy = pattern_busy_;
  snapshot.events = events_;
  snapshot.finished_operators = finished_operators_;
  snapshot.slots.reserve(slots_.size());
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    const SlotState& state = slots_[slot];
    const HostState& host = hosts_[slot];
    snapshot.slots.push_back({.done = state.done,
                              .segment_end = state.running ? state.segment_end : 0,
                              .host_waiting = state.host_waiting,
                              .host_phase = host.phase,
                              .host_waits = host.waits,
                              .host_begun = host.begun});
  }
  snapshot.link_busy.reserve(system_.resources.size());
  for (std::uint32_t link = 0; link < system_.resources.size(); ++link)
    snapshot.link_busy.push_back(sharing_.busy_until(link, now()));
  snapshot.relative = relative_state();
  snapshot.hash = hash_of(snapshot.relative);
  return snapshot;
}

std::vector<std::uint64_t> Executor::relative_state() const {
  Words words{now()};
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot)
    add_slot(words, slot);
  for (std::uint32_t channel = 0; channel < channels_.size(); ++channel)
    if (channels_[channel].arrived > 0)
      words.add(std::uint64_t{channel} << 32 | channels_[channel].arrived);
  const std::vector<std::uint32_t> live = live_activities();
  std::vector<std::uint32_t> order(activities_.size(), never);
  for (std::uint32_t i = 0; i < live.size(); ++i) {
    order[live[i]] = i;
    add_activity(words, live[i]);
  }
  add_events(words, order);
  return words.take();
}

template <class Words>
void Executor::add_slot(Words& words, std::uint32_t slot) const {
  const SlotState& state = slots_[slot];
  std::uint64_t packed = 0;
  std::uint32_t waiting = state.host_waiting;
  for (std::size_t s = 0; s < stream_count; ++s) {
    packed = s % 4 == 0 ? state.waiters[s] : packed << 16 | state.waiters[s];
    if (s % 4 == 3 || s + 1 == stream_count) words.add(packed);
    waiting |= state.waiters[s];
  }
  words.add(std::uint64_t{state.host_waiting} << 3 | std::uint64_t{state.running} << 2 |
            std::uint64_t{state.in_segment} << 1 | std::uint64_t{state.in_tail});
  words.add(std::int64_t{state.sm_held});
  words.add(state.memory_held);
  words.add(late_[slot]);
  words.add(hosts_[slot].wakeup > now() ? hosts_[slot].wakeup : now());
  if (state.running) {
    words.add(std::uint64_t{state.segment_end - state.position});
    words.add(state.begun);
    words.add(state.speed);
    if (!state.in_segment) {
      words.add(state.remaining);
      words.add(state.updated);
    }
  }
  if (record_of_[slot] != no_record) add_launched(words, slot, waiting);
}

// Adds the spans recorded so far of communication and side kernels that have not ended.
template <class Words>
void Executor::add_launched(Words& words, std::uint32_t slot, std::uint32_t waiting) const {
  const SlotState& state = slots_[slot];
  for (std::uint32_t s = 0; s < stream_count; ++s) {
    const std::vector<OpId>& order = index_of(slot).order[s];
    if (s == compute || (waiting >> s & 1U) != 0 || state.done[s] >= order.size()) continue;
    const Span& span = spans_[record_of_[slot]][order[state.done[s]].value];
    words.add(span.begin);
    words.add(span.active);
    words.add(span.end);
  }
}

// Live activities, in the order of their places: their numbers say nothing.
std::vector<std::uint32_t> Executor::live_activities() const {
  std::vector<char> is_free(activities_.size(), 0);
  for (const std::uint32_t id : free_activities_)
    is_free[id] = 1;
  std::vector<std::uint32_t> live;
  for (std::uint32_t id = 0; id < activities_.size(); ++id)
    if (is_free[id] == 0) live.push_back(id);
  std::sort(live.begin(), live.end(),
            [&](std::uint32_t a, std::uint32_t b) { return place_of(a) < place_of(b); });
  return live;
}

// A channel has one activity at a time, and a stream of a slot one side kernel.
std::uint64_t Executor::place_of(std::uint32_t id) const {
  const Activity& activity = activities_[id];
  if (activity.kind == ActivityKind::communication) return std::uint64_t{activity.channel} << 8;
  return std::uint64_t{activity.slot} << 8 | std::uint64_t{1} << 7 |
         static_cast<std::uint64_t>(activity.stream);
}

template <class Words>
void Executor::add_activity(Words& words, std::uint32_t id) const {
  const Activity& activity = activities_[id];
  words.add(place_of(id));
  words.add(activity.memory_held);
  if (activity.kind == ActivityKind::side_kernel) {
    words.add(activity.sm_held);
    return;
  }
  words.add(std::uint64_t{activity.cell} << 8 | static_cast<std::uint64_t>(activity.stream) << 2 |
            std::uint64_t{activity.in_transfer} << 1 | std::uint64_t{activity.moves});
  words.add(activity.started);
  if (!activity.in_transfer) return;
  words.add(std::uint64_t{activity.pattern});
  words.add(activity.moving);
  const LinkSharing::Progress progress = sharing_.progress(id);
  words.add(progress.level);
  words.add(progress.remaining);
  words.add(progress.updated);
}

// In the order of their times, and of one instant in the order in which they were scheduled. Those
// that are stale are only counted.
template <class Words>
void Executor::add_events(Words& words, const std::vector<std::uint32_t>& order) const {
  std::vector<Event> events = queue_.pending();
  std::stable_sort(events.begin(), events.end(),
                   [](const Event& a, const Event& b) { return a.at < b.at; });
  constexpr std::uint64_t void_event = 7;
  for (const Event& event : events) {
    words.add(event.at);
    const bool of_slot =
        event.kind() == EventKind::kernel_end || event.kind() == EventKind::host_wakeup;
    const bool is_current = event.kind() == EventKind::kernel_end
                                ? event.is_current(slots_[event.subject].epoch)
                            : event.kind() == EventKind::transfer_end
                                ? event.is_current(activities_[event.subject].epoch)
                                : true;
    const std::uint32_t subject = of_slot ? event.subject : order[event.subject];
    words.add(is_current ? std::uint64_t{subject} << 3 | static_cast<std::uint64_t>(event.kind())
                         : void_event);
  }
}

void Executor::jump(const Snapshot& before, const Snapshot& current, std::uint64_t periods) {
  const Duration by = static_cast<std::int64_t>(periods) * (current.at - before.at);
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    repeat_spans(slot, before, current, periods);
    move_slot(slot, before.slots[slot], current.slots[slot], periods, by);
  }
  for (Activity& activity : activities_) {
    activity.started += by;
    activity.moving += by;
  }
  queue_.move(by);
  sharing_.move(by, periods, before.link_busy, current.link_busy);
  for (std::size_t cell = 0; cell < totals_.size(); ++cell) {
    add_multiple(totals_[cell].calls, before.totals[cell].calls, periods);
    add_multiple(totals_[cell].time, before.totals[cell].time, periods);
  }
  for (std::size_t p = 0; p < pattern_bytes_.size(); ++p) {
    add_multiple(pattern_bytes_[p], before.pattern_bytes[p], periods);
    add_multiple(pattern_busy_[p], before.pattern_busy[p], periods);
  }
  add_multiple(events_, before.events, periods);
  add_multiple(finished_operators_, before.finished_operators, periods);
  end_ += by;
  jumped_events_ += periods * (current.events - before.events);
}

void Executor::move_slot(std::uint32_t slot, const SlotMark& begin, const SlotMark& end,
                         std::uint64_t periods, Duration by) {
  SlotState& state = slots_[slot];
  const auto moved = [&](std::uint32_t from, std::uint32_t to) {
    return static_cast<std::uint32_t>(periods) * (to - from);
  };
  for (std::size_t s = 0; s < stream_count; ++s)
    state.done[s] += moved(begin.done[s], end.done[s]);
  const std::uint32_t kernels = moved(begin.done[compute], end.done[compute]);
  state.position += kernels;
  state.segment_end += kernels;
  state.begun += by;
  state.updated += by;
  HostState& host = hosts_[slot];
  if (host.wakeup >= now()) host.wakeup += by;
  if (begin.host_phase == end.host_phase) return;
  host.phase += moved(begin.host_phase, end.host_phase);
  host.begun += by;
}

// Copies what was recorded of the period to those that are jumped over, and takes along what has
// begun and not ended.
void Executor::repeat_spans(std::uint32_t slot, const Snapshot& before, const Snapshot& current,
                            std::uint64_t periods) {
  if (record_of_[slot] == no_record) return;
  std::vector<Span>& spans = spans_[record_of_[slot]];
  const Duration period = current.at - before.at;
  for (std::size_t s = 0; s < stream_count; ++s) {
    const std::vector<OpId>& order = index_of(slot).order[s];
    const std::uint32_t first = before.slots[slot].done[s];
    const std::uint32_t last = current.slots[slot].done[s];
    const std::uint32_t shift = last - first;
    if (shift == 0) continue;
    const auto all = static_cast<std::uint32_t>(periods) * shift;
    const OpId begun = order[last + all];
    spans[begun.value] =
        later(spans[order[last].value], begun, static_cast<std::int64_t>(periods) * period);
    for (std::uint32_t at = last; at < last + all; ++at)
      spans[order[at].value] = later(spans[order[at - shift].value], order[at], period);
  }
}

}  // namespace sim
