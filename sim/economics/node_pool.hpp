// Nodes that stand by, and what a job does when there are none.
#pragma once

#include <chrono>
#include <limits>
#include <vector>

namespace sim {

// Longer than Duration's 106 days, and no finer than a double.
using Seconds = std::chrono::duration<double>;
inline constexpr Seconds never{std::numeric_limits<double>::infinity()};

// NodePool is the nodes of a job with its spares. A node that is lost comes back after `repair` and
// is a spare again. Where no spare is left, the job goes on without the node, at `speeds`, and
// halts for `resize` when one is back; beyond the last of the speeds it waits.
struct NodePool {
  bool limited = false;  // false: there is always another node
  int spares = 0;
  Seconds repair{};              // mean of an exponential time
  std::vector<double> speeds{};  // of the job with 1, 2, .. nodes too few; 1 is all of it
  Seconds resize{};

  // Most nodes that may be away while the job runs.
  std::size_t most_away() const { return static_cast<std::size_t>(spares) + speeds.size(); }
  // Speed with that many away.
  double speed(std::size_t away) const;
};

// The effect of a pool on a job that loses a node every `every` while it does not wait.
struct PoolShares {
  double waiting = 0;  // share of the time without enough nodes
  double speed = 1;    // mean, of the time that the job does not wait
  double resizes = 0;  // per second of that time
};

// The pool as a birth-and-death process: nodes away, Erlang's loss system with one server for every
// node that may be away (Erlang 1917). The distribution of the repair does not matter.
PoolShares pool_shares(const NodePool& pool, Seconds every);

}  // namespace sim
