#include <queue>

#include "sim/search/search.hpp"

namespace sim {

// The heap from its top, best first. Entries that are not bounded closely are passed over: when
// their turn comes they will move down.
std::vector<std::uint32_t> Search::likely_next(std::size_t count) const {
  std::vector<std::uint32_t> likely;
  const auto later = [&](std::size_t a, std::size_t b) { return open_[a] < open_[b]; };
  std::priority_queue<std::size_t, std::vector<std::size_t>, decltype(later)> seen{later};
  if (!open_.empty()) seen.push(0);
  for (std::size_t looked_at = 0; !seen.empty() && likely.size() < count && looked_at < 8 * count;
       ++looked_at) {
    const std::size_t at = seen.top();
    seen.pop();
    const Entry& entry = open_[at];
    if (entry.is_fine && ranking_.matters(entry.index, entry.bound.step_time, entry.bound.memory))
      likely.push_back(entry.index);
    for (std::size_t child = 2 * at + 1; child <= 2 * at + 2; ++child)
      if (child < open_.size()) seen.push(child);
  }
  return likely;
}

}  // namespace sim
