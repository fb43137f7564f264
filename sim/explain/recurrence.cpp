#include <algorithm>
#include <map>

#include "sim/explain/steps.hpp"

namespace sim {
namespace {

// So many of 20 entries must recur: data-dependent kernels may differ.
constexpr std::size_t same_of_20 = 19;
constexpr std::size_t least_length = 4;  // entries: shorter ones are loops within an operator
constexpr std::size_t most_candidates = 64;

bool recurs(const std::vector<std::uint32_t>& names, std::size_t first, std::size_t length) {
  const std::size_t pairs = names.size() - first - length;
  std::size_t same = 0;
  for (std::size_t i = first; i < names.size() - length; ++i)
    if (names[i] == names[i + length]) ++same;
  return same * 20 >= pairs * same_of_20;
}

// The distance of a name's places, where it is the same for most of them; 0: it is not.
std::size_t distance_of(const std::vector<std::size_t>& places) {
  std::map<std::size_t, std::size_t> counts;
  for (std::size_t i = 1; i < places.size(); ++i)
    ++counts[places[i] - places[i - 1]];
  const auto most =
      std::max_element(counts.begin(), counts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == counts.end() || 2 * most->second < places.size() - 1) return 0;
  return most->first;
}

}  // namespace

Recurrence find_recurrence(const std::vector<std::uint32_t>& names) {
  std::map<std::uint32_t, std::vector<std::size_t>> places;
  for (std::size_t i = 0; i < names.size(); ++i)
    places[names[i]].push_back(i);
  std::vector<const std::vector<std::size_t>*> rarest;
  for (const auto& [name, of] : places)
    if (of.size() >= 2) rarest.push_back(&of);
  std::stable_sort(rarest.begin(), rarest.end(),
                   [](const auto* a, const auto* b) { return a->size() < b->size(); });
  if (rarest.size() > most_candidates) rarest.resize(most_candidates);
  for (const auto* of : rarest) {
    const std::size_t length = distance_of(*of);
    if (length < least_length) continue;
    // Entries before the rare name belong to a step, too, as far as they recur.
    std::size_t from = of->front();
    while (from > 0 && from - 1 + length < names.size() &&
           names[from - 1] == names[from - 1 + length])
      --from;
    if (from + 2 * length > names.size()) continue;
    if (!recurs(names, from, length)) continue;
    const std::size_t times = (names.size() - from) / length;
    if (times >= 2) return {from, length, times};
  }
  return {};
}

}  // namespace sim
