// Steady state: where a simulation is again what it was one period before, and for how many periods
// the programs go on as they did in it. JUMP.md says why a jump over them is exact.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "sim/engine/cost_table.hpp"
#include "sim/program/program.hpp"

namespace sim {

// Numbers of operators, by stream.
using StreamCounts = std::array<std::uint32_t, stream_count>;

// How far a slot is at an instant.
struct SlotMark {
  StreamCounts done{};
  std::uint32_t segment_end = 0;   // of the running kernels; 0: none
  std::uint16_t host_waiting = 0;  // streams that wait for the host
  std::uint32_t host_phase = 0;
  std::uint32_t host_waits = 0;  // times at which an operator was not issued yet, since the start
  TimePoint host_begun{};        // of the phase
};

// Sums over the calls of one cell of the cost table.
struct CommTotals {
  std::uint64_t calls = 0;
  Duration time{};  // from the arrival of the last member to the end
};

// A simulation between two instants: all that decides how it goes on, with times from now on and
// without positions; how far the slots are; and what has been summed up so far.
struct Snapshot {
  TimePoint at{};
  std::uint64_t hash = 0;  // of `relative`
  std::vector<std::uint64_t> relative;
  std::vector<SlotMark> slots;

  std::vector<CommTotals> totals;
  std::vector<std::int64_t> pattern_bytes;
  std::vector<Duration> pattern_busy;
  std::vector<Duration> link_busy;
  std::uint64_t events = 0;
  std::uint64_t finished_operators = 0;

  bool same_state(const Snapshot& other) const {
    return hash == other.hash && relative == other.relative;
  }
  std::size_t bytes() const;
};

// The latest snapshots, as many as a bounded memory holds.
class Snapshots {
 public:
  void add(Snapshot&& snapshot);
  void clear();
  const std::deque<Snapshot>& all() const { return all_; }  // oldest first

 private:
  std::deque<Snapshot> all_;
  std::size_t bytes_ = 0;
};

// Compute positions at which a pass of another micro-batch begins: where to look for a recurrence.
std::vector<std::uint32_t> milestones(const Program& program, const ProgramIndex& index);

// How often a program goes on as it did between two marks: in period k the engine meets the
// operators that it met then, k shifts further on, with the same work and the same partners of
// dependencies. `issue`: what the host has to issue in a period, in ps, where it does not wait.
struct Repetitions {
  std::uint64_t times = 0;
  std::int64_t issue = 0;
};
Repetitions repetitions(const Program& program, const ProgramIndex& index, const LaneCosts& lane,
                        const SlotMark& begin, const SlotMark& end);

}  // namespace sim
