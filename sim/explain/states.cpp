#include "sim/explain/states.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "sim/explain/activity_class.hpp"
#include "sim/explain/gaps.hpp"

namespace sim {
namespace {

// An activity begins or ends to be in a state.
struct StateChange {
  TimePoint at;
  std::int32_t activity = not_told;
  std::size_t slot = 0;  // of active_states
  bool begins = false;
};

// The states that are of an activity, in order of precedence.
// The first slot is of kernels on the stream that computes most: those of other streams have only
// the instants in which it does nothing.
constexpr std::array active_states{StepState::compute, StepState::compute, StepState::transfer,
                                   StepState::peer, StepState::copy};

class StateSweep {
 public:
  StateSweep(const RunRank& rank, const HostTroubles& troubles, const StepWindow& window,
             const std::vector<TimePoint>& ready, TimePoint done)
      : device_{rank.device},
        window_{window},
        troubles_{troubles},
        done_{done},
        main_stream_{busiest_compute_stream(rank)} {
    for (std::size_t i = 0; i < rank.device.size(); ++i) {
      const DeviceActivity& activity = rank.device[i];
      if (activity.begin >= window.end) {
        if (after_ == not_told && class_of_activity(activity) != ActivityClass::of_host)
          after_ = static_cast<std::int32_t>(i);
        continue;
      }
      if (activity.end > window.begin) add(static_cast<std::int32_t>(i), activity, ready[i]);
    }
    std::stable_sort(changes_.begin(), changes_.end(),
                     [](const StateChange& a, const StateChange& b) { return a.at < b.at; });
    std::int32_t last = not_told;
    holds_up_.resize(changes_.size() + 1, last);
    for (std::size_t i = changes_.size(); i-- > 0; holds_up_[i] = last) {
      const StateChange& change = changes_[i];
      if (change.slot == 0 && change.begins)
        last = not_told;
      else if (last == not_told && !change.begins &&
               active_states[change.slot] == StepState::transfer)
        last = change.activity;
    }
  }

  std::vector<StateSpan> run() {
    TimePoint at = window_.begin;
    for (std::size_t i = 0; i < changes_.size();) {
      const TimePoint next = changes_[i].at;
      if (next > at) advance(at, next, i);
      at = next;
      for (; i < changes_.size() && changes_[i].at == next; ++i)
        apply(changes_[i]);
    }
    if (at < window_.end) advance(at, window_.end, changes_.size());
    return std::move(states_);
  }

 private:
  void add(std::int32_t index, const DeviceActivity& activity, TimePoint ready) {
    switch (class_of_activity(activity)) {
      case ActivityClass::compute:
        return add(index, activity.stream == main_stream_ ? 0 : 1, activity.begin, activity.end);
      case ActivityClass::copy:
        return add(index, 4, activity.begin, activity.end);
      case ActivityClass::communication:
        add(index, 3, activity.begin, ready);
        return add(index, 2, ready, activity.end);
      case ActivityClass::of_host:
        return;
    }
  }

  void add(std::int32_t index, std::size_t slot, TimePoint begin, TimePoint end) {
    begin = std::max(begin, window_.begin);
    end = std::min(end, window_.end);
    if (begin >= end) return;
    changes_.push_back({begin, index, slot, true});
    changes_.push_back({end, index, slot, false});
  }

  void apply(const StateChange& change) {
    auto& active = active_[change.slot];
    if (change.begins)
      active.insert(change.activity);
    else
      active.erase(change.activity);
  }

  // Among transfers at one time, the stream whose transfer ends last before the next kernel
  // of the main stream: the others do not hold it up.
  std::int32_t that_holds_up(const std::set<std::int32_t>& transfers, std::int32_t last) const {
    for (const std::int32_t transfer : transfers)
      if (last != not_told && device_[static_cast<std::size_t>(transfer)].stream ==
                                  device_[static_cast<std::size_t>(last)].stream)
        return transfer;
    return *transfers.begin();
  }

  void advance(TimePoint from, TimePoint to, std::size_t next_change) {
    for (std::size_t slot = 0; slot < active_states.size(); ++slot) {
      const auto& active = active_[slot];
      if (active.empty()) continue;
      const StepState state = active_states[slot];
      const std::int32_t activity = state == StepState::transfer
                                        ? that_holds_up(active, holds_up_[next_change])
                                        : *active.begin();
      if (!states_.empty() && states_.back().state == state &&
          states_.back().activity == activity && states_.back().end == from)
        states_.back().end = to;
      else
        states_.push_back({from, to, state, activity});
      return;
    }
    const std::int32_t next =
        next_change < changes_.size() ? changes_[next_change].activity : after_;
    if (next == not_told && from < done_) {
      const TimePoint until = std::min(to, done_);
      states_.push_back({from, until, StepState::peer, not_told});
      from = until;
    }
    if (from < to) troubles_.add_gap(from, to, next, states_);
  }

  const std::vector<DeviceActivity>& device_;
  const StepWindow window_;
  const HostTroubles& troubles_;
  const TimePoint done_;
  const std::uint32_t main_stream_;
  std::vector<StateChange> changes_;
  // By change: the transfer that ends last between it and the next kernel of the main stream.
  std::vector<std::int32_t> holds_up_;
  std::array<std::set<std::int32_t>, active_states.size()> active_;
  std::int32_t after_ = not_told;  // the first activity behind the window
  std::vector<StateSpan> states_;
};

}  // namespace

std::uint32_t busiest_compute_stream(const RunRank& rank) {
  std::map<std::uint32_t, Duration> times;
  for (const DeviceActivity& activity : rank.device)
    if (class_of_activity(activity) == ActivityClass::compute)
      times[activity.stream] += activity.time();
  const auto most = std::max_element(
      times.begin(), times.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == times.end() ? 0 : most->first;
}

std::vector<StateSpan> states_of(const RunRank& rank, const HostTroubles& troubles,
                                 const StepWindow& window, const std::vector<TimePoint>& ready,
                                 TimePoint done) {
  return StateSweep{rank, troubles, window, ready, done}.run();
}

}  // namespace sim
