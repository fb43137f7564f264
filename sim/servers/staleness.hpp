// How stale updates were: of each, the updates of other workers between a worker's parameters of a
// bucket and its own update of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sim {

class Staleness {
 public:
  void add(std::int64_t updates);
  void add(const Staleness& others);

  bool empty() const { return counts_.empty(); }
  // How often there were 0, 1, 2, ...
  const std::vector<std::int64_t>& counts() const { return counts_; }
  std::int64_t most() const { return static_cast<std::int64_t>(counts_.size()) - 1; }
  double mean() const;  // 0 of none
  // The least that so large a share of all does not exceed. REQUIRES: 0 < share <= 1.
  std::int64_t quantile(double share) const;
  bool operator==(const Staleness&) const = default;

 private:
  std::vector<std::int64_t> counts_;
};

// "2.94 updates of other workers in the mean, half of all within 3, ...". REQUIRES: not empty.
std::string to_text(const Staleness& staleness, int decimals);

}  // namespace sim
