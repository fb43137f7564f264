// The future-event list: a monotone radix heap (Ahuja, Mehlhorn, Orlin & Tarjan 1990).
//
// Simulated time never runs backwards, so an event is never scheduled before the last instant
// taken. Bucket b holds the events whose time differs from that instant first in bit b - 1: an
// event moves only to lower buckets, each move is a sequential append, and there is nothing to
// compare. take_instant() hands out all events of the next instant at once, in the order in which
// they were scheduled; the engine settles them together, so that no result depends on that order.
//
// Invariants:
//  1. at >= now() for every event held.
//  2. buckets_[0] holds exactly the events at now() that have not been taken.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "sim/base/check.hpp"
#include "sim/base/units.hpp"

namespace sim {

enum class EventKind : std::uint8_t { kernel_end, latency_paid, transfer_end, host_wakeup };

// `epoch` is compared with the subject's own when the event is taken: an end time that has moved
// leaves its old event behind; the stale event is ignored.
class Event {
 public:
  Event(TimePoint when, EventKind kind, std::uint32_t subject_id, std::uint32_t epoch = 0)
      : at{when},
        subject{subject_id},
        epoch_and_kind_{epoch << 2 | static_cast<std::uint32_t>(kind)} {}

  EventKind kind() const { return static_cast<EventKind>(epoch_and_kind_ & 3U); }
  bool is_current(std::uint32_t epoch) const { return epoch_and_kind_ >> 2 == epoch << 2 >> 2; }

  TimePoint at;
  std::uint32_t subject;

 private:
  std::uint32_t epoch_and_kind_;  // 30 bits of the epoch, 2 of the kind
};
static_assert(sizeof(Event) == 16);

class EventQueue {
 public:
  TimePoint now() const { return now_; }
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }

  void schedule(const Event& event) {
    SIM_CHECK(event.at >= now_, event.at.time_since_epoch().count());
    put(event);
    ++size_;
  }

  // Moves now() to the next instant and replaces `out` by all its events. REQUIRES: !empty().
  void take_instant(std::vector<Event>& out) {
    if (buckets_[0].empty()) advance();
    out.clear();
    out.swap(buckets_[0]);
    size_ -= out.size();
  }

  // All events held, of one instant in the order in which they were scheduled.
  std::vector<Event> pending() const {
    std::vector<Event> events;
    events.reserve(size_);
    for (const std::vector<Event>& bucket : buckets_)
      events.insert(events.end(), bucket.begin(), bucket.end());
    return events;
  }

  // Moves now() and all events on by a duration >= 0.
  void move(Duration by) {
    std::vector<Event> events = pending();
    for (std::vector<Event>& bucket : buckets_)
      bucket.clear();
    occupied_ = 0;
    now_ += by;
    for (Event& event : events) {
      event.at += by;
      put(event);
    }
  }

 private:
  std::size_t bucket_of(TimePoint at) const {
    const auto difference = static_cast<std::uint64_t>(at.time_since_epoch().count()) ^
                            static_cast<std::uint64_t>(now_.time_since_epoch().count());
    return static_cast<std::size_t>(std::bit_width(difference));
  }

  void put(const Event& event) {
    const std::size_t bucket = bucket_of(event.at);
    if (bucket > 0) occupied_ |= std::uint64_t{1} << (bucket - 1);
    buckets_[bucket].push_back(event);
  }

  void advance() {
    SIM_CHECK(occupied_ != 0);
    const auto lowest = static_cast<std::size_t>(std::countr_zero(occupied_)) + 1;
    occupied_ &= occupied_ - 1;
    std::vector<Event>& bucket = buckets_[lowest];
    TimePoint next = bucket.front().at;
    for (const Event& event : bucket)
      next = event.at < next ? event.at : next;
    now_ = next;
    for (const Event& event : bucket)
      put(event);
    bucket.clear();
  }

  TimePoint now_{};
  std::size_t size_ = 0;
  std::uint64_t occupied_ = 0;  // bit b - 1: bucket b holds events
  std::array<std::vector<Event>, 65> buckets_;
};

}  // namespace sim
