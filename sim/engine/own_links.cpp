#include "sim/engine/own_links.hpp"

#include <algorithm>

namespace sim {
namespace {

constexpr std::uint32_t nobody = UINT32_MAX;
constexpr std::uint32_t several = UINT32_MAX - 1;

// The channel that alone uses a resource, by resource.
std::vector<std::uint32_t> owners_of(const System& system) {
  std::vector<std::uint32_t> owner(system.resources.size(), nobody);
  for (std::uint32_t c = 0; c < system.channels.size(); ++c)
    for (const Pattern& pattern : system.patterns_of(system.channels[c]))
      for (const ResourceUse& use : system.uses_of(pattern))
        owner[use.resource] =
            owner[use.resource] == nobody || owner[use.resource] == c ? c : several;
  return owner;
}

// The fastest that the channel ever sends by a pattern.
std::int64_t highest_rate(const System& system, const Channel& channel, const Pattern& pattern) {
  std::int64_t rate = 0;
  for (std::uint32_t request = 0; request < system.requests.size(); ++request) {
    const CommCost& cost = system.cost(channel.shape, request);
    if (channel.point_to_point || cost.algorithm == pattern.algorithm)
      rate = std::max(rate, cost.rate);
  }
  return rate;
}

// Takes the links away from owners that could ask them for more than they have.
void drop_over_asked(const System& system, std::vector<std::uint32_t>& owner) {
  for (const Channel& channel : system.channels)
    for (const Pattern& pattern : system.patterns_of(channel)) {
      const std::int64_t rate = highest_rate(system, channel, pattern);
      for (const ResourceUse& use : system.uses_of(pattern)) {
        const WideInt capacity = static_cast<WideInt>(system.resources[use.resource].capacity)
                                 << 16;
        if (static_cast<WideInt>(use.weight) * rate > capacity) owner[use.resource] = several;
      }
    }
}

}  // namespace

void find_own_links(System& system) {
  std::vector<std::uint32_t> owner = owners_of(system);
  drop_over_asked(system, owner);
  for (const Channel& channel : system.channels)
    for (std::uint32_t p = 0; p < channel.pattern_count; ++p) {
      Pattern& pattern = system.patterns[channel.first_pattern + p];
      const auto first = system.uses.begin() + pattern.first_use;
      const auto own = std::stable_partition(
          first, first + pattern.use_count,
          [&](const ResourceUse& use) { return owner[use.resource] == several; });
      pattern.shared_count = static_cast<std::uint32_t>(own - first);
    }
}

}  // namespace sim
