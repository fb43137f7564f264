// Where a rank is, for those who watch it: the watchdog of the launcher names the operator of a
// rank that hangs or dies. A few relaxed stores; may lie in memory shared between processes.
//
// How a backend uses it (Backend setups take a `Heartbeat*` that may be null):
//   begin_step(s)  at the start of each step
//   begin(op)      when operator `op` of its program starts (host), or is the first that the device
//                  has not finished (cuda, while it waits for the device)
//   waiting()      again and again while the rank can do nothing but wait for others: host, in the
//                  loop around Transport::idle(); cuda, while `op` is a collective or a receive
// A rank that neither begins operators nor says that it waits is the one that hangs; those that
// wait for it are not to blame.
#pragma once

#include <atomic>
#include <cstdint>

namespace real {

// RankPhase is what a rank does outside the operators of a step.
enum class RankPhase : std::uint8_t { starting, preparing, step, saving, ending };

struct HeartbeatState {
  RankPhase phase = RankPhase::starting;
  std::int64_t step = 0;
  std::int64_t operator_index = -1;  // -1: none yet in this phase
  std::uint64_t progress = 0;        // changes whenever the rank moves on
  std::uint64_t waits = 0;           // changes while it waits for others
};

class alignas(64) Heartbeat {
 public:
  void enter(RankPhase phase) { move_to(phase, 0, -1); }
  void begin_step(std::int64_t step) { move_to(RankPhase::step, step, -1); }
  void begin(std::uint32_t op) {
    operator_.store(op, std::memory_order_relaxed);
    add_one(progress_);
  }
  void waiting() { add_one(waits_); }

  HeartbeatState state() const {
    return {.phase = phase_.load(std::memory_order_relaxed),
            .step = step_.load(std::memory_order_relaxed),
            .operator_index = operator_.load(std::memory_order_relaxed),
            .progress = progress_.load(std::memory_order_relaxed),
            .waits = waits_.load(std::memory_order_relaxed)};
  }
  // set() is for a mirror of a rank on another machine.
  void set(const HeartbeatState& state) {
    phase_.store(state.phase, std::memory_order_relaxed);
    step_.store(state.step, std::memory_order_relaxed);
    operator_.store(state.operator_index, std::memory_order_relaxed);
    waits_.store(state.waits, std::memory_order_relaxed);
    progress_.store(state.progress, std::memory_order_relaxed);
  }

 private:
  void move_to(RankPhase phase, std::int64_t step, std::int64_t op) {
    phase_.store(phase, std::memory_order_relaxed);
    step_.store(step, std::memory_order_relaxed);
    operator_.store(op, std::memory_order_relaxed);
    add_one(progress_);
  }
  // One writer: no read-modify-write needed.
  static void add_one(std::atomic<std::uint64_t>& counter) {
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  std::atomic<RankPhase> phase_{RankPhase::starting};
  std::atomic<std::int64_t> step_{0};
  std::atomic<std::int64_t> operator_{-1};
  std::atomic<std::uint64_t> progress_{0};
  std::atomic<std::uint64_t> waits_{0};
};
static_assert(std::atomic<std::int64_t>::is_always_lock_free &&
              std::atomic<RankPhase>::is_always_lock_free);

}  // namespace real
