#include "sim/economics/node_pool.hpp"

#include <algorithm>
#include <cmath>

namespace sim {

double NodePool::speed(std::size_t away) const {
  const auto standing_by = static_cast<std::size_t>(spares);
  if (away <= standing_by || speeds.empty()) return 1;
  return speeds[std::min(away - standing_by, speeds.size()) - 1];
}

// The chance of n nodes away is in proportion to load^n / n!, up to the one that the job waits for.
// It is taken relative to the largest, so that neither end leaves the range of doubles.
PoolShares pool_shares(const NodePool& pool, Seconds every) {
  PoolShares shares;
  const double load = pool.repair / every;
  if (!pool.limited || load <= 0) return shares;
  const std::size_t waiting = pool.most_away() + 1;
  const auto log_weight = [&](std::size_t away) {
    const auto n = static_cast<double>(away);
    return n * std::log(load) - std::lgamma(n + 1);
  };
  const double top =
      log_weight(static_cast<std::size_t>(std::min(load, static_cast<double>(waiting))));
  double running = 0, work = 0, regained = 0;
  for (std::size_t away = 0; away < waiting; ++away) {
    const double weight = std::exp(log_weight(away) - top);
    running += weight;
    work += weight * pool.speed(away);
    if (away > static_cast<std::size_t>(pool.spares))
      regained += weight * static_cast<double>(away) / pool.repair.count();
  }
  const double halted = std::exp(log_weight(waiting) - top);
  shares.waiting = halted / (running + halted);
  if (running > 0) {
    shares.speed = work / running;
    shares.resizes = regained / running;
  } else {
    shares.speed = pool.speed(pool.most_away());
  }
  return shares;
}

}  // namespace sim
