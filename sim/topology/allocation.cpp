#include "sim/topology/allocation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <numeric>
#include <set>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "sim/base/near_names.hpp"
#include "sim/base/random.hpp"
#include "sim/topology/cluster_data.hpp"
#include "sim/topology/node_list.hpp"

namespace sim {
namespace {

constexpr std::uint64_t stream_of_sizes = 1, stream_of_ends = 2, stream_of_nodes = 3;

std::size_t index_below(std::size_t count, std::uint64_t seed, std::uint64_t stream,
                        std::uint64_t index) {
  const double drawn = uniform(seed, stream, index) * static_cast<double>(count);
  return std::min(static_cast<std::size_t>(drawn), count - 1);
}

// Fisher and Yates: the first `count` of a random order of the items.
template <class Item>
void shuffle_first(std::vector<Item>& items, std::size_t count, std::uint64_t seed,
                   std::uint64_t stream) {
  for (std::size_t i = 0; i < count && i + 1 < items.size(); ++i)
    std::swap(items[i], items[i + index_below(items.size() - i, seed, stream, i)]);
}

std::vector<int> first_nodes(int nodes) {
  std::vector<int> all(static_cast<std::size_t>(nodes));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

struct OtherJob {
  int first = 0, nodes = 0;
};

// Jobs that fill a machine, one behind the other.
std::vector<OtherJob> full_machine(int all, std::uint64_t seed) {
  const auto sizes =
      static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(std::max(1, all / 4))));
  std::vector<OtherJob> jobs;
  for (int at = 0; at < all;) {
    const int size = 1 << index_below(sizes, seed, stream_of_sizes, jobs.size());
    jobs.push_back({at, std::min(size, all - at)});
    at += jobs.back().nodes;
  }
  return jobs;
}

// The free nodes of a fragmented machine, ascending. Jobs end in a random order, as long as no more
// nodes become free than the occupancy leaves.
std::vector<int> free_nodes(double occupancy, std::uint64_t seed, int all) {
  std::vector<OtherJob> jobs = full_machine(all, seed);
  shuffle_first(jobs, jobs.size(), seed, stream_of_ends);
  int left = all - static_cast<int>(std::ceil(occupancy * all));
  std::vector<int> free;
  for (const OtherJob& job : jobs) {
    if (job.nodes > left) continue;
    left -= job.nodes;
    for (int node = job.first; node < job.first + job.nodes; ++node)
      free.push_back(node);
  }
  std::sort(free.begin(), free.end());
  return free;
}

// The node that a name stands for by the number at its end.
int numbered_node(const std::string& name, int all) {
  const std::size_t first = name.find_last_not_of("0123456789") + 1;
  int number = -1;
  if (name.size() - first <= 9)
    std::from_chars(name.data() + first, name.data() + name.size(), number);
  if (number >= 0 && number < all) return number;
  throw std::invalid_argument(fmt::format(
      "\"{}\": the cluster's file has no node_names, so that nodes are called by the number at the "
      "end of their name; allowed: 0 to {}",
      name, all - 1));
}

std::vector<int> named_nodes(const std::vector<std::string>& list,
                             const std::vector<std::string>& names) {
  std::unordered_map<std::string_view, int> number;
  for (std::size_t i = 0; i < names.size(); ++i)
    number.emplace(names[i], static_cast<int>(i));
  std::vector<int> nodes;
  for (const std::string& name : list) {
    const auto found = number.find(name);
    if (found == number.end())
      throw std::invalid_argument(fmt::format("the cluster has no node \"{}\"; {}", name,
                                              choices_text(name, {names.begin(), names.end()})));
    nodes.push_back(found->second);
  }
  return nodes;
}

}  // namespace

std::vector<int> nodes_of_list(const std::string& list, const Cluster& machine) {
  const std::vector<std::string> names = expand_node_list(list);
  std::vector<int> nodes;
  if (!machine.data().node_names.empty()) {
    nodes = named_nodes(names, machine.data().node_names);
  } else {
    for (const std::string& name : names)
      nodes.push_back(numbered_node(name, machine.machine_nodes()));
  }
  std::vector<bool> seen(static_cast<std::size_t>(machine.machine_nodes()));
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto node = static_cast<std::size_t>(nodes[i]);
    if (node >= seen.size())
      throw std::invalid_argument(
          fmt::format("\"{}\" is beyond the {} nodes in use", names[i], machine.machine_nodes()));
    if (seen[node])
      throw std::invalid_argument(
          fmt::format("\"{}\" is node {}, which is there twice", names[i], nodes[i]));
    seen[node] = true;
  }
  return nodes;
}

std::vector<int> draw_nodes(const NodeAllocation& allocation, int nodes, int all) {
  if (nodes > all)
    throw std::invalid_argument(fmt::format("{} nodes of a machine of {}", nodes, all));
  if (allocation.kind == AllocationKind::packed) return first_nodes(nodes);
  std::vector<int> drawn;
  if (allocation.kind == AllocationKind::random) {
    drawn = first_nodes(all);
    shuffle_first(drawn, static_cast<std::size_t>(nodes), allocation.seed, stream_of_nodes);
  } else {
    drawn = free_nodes(allocation.occupancy, allocation.seed, all);
    if (drawn.size() < static_cast<std::size_t>(nodes))
      throw std::invalid_argument(
          fmt::format("other jobs leave {} of {} nodes free, fewer than the {} of this job; lower "
                      "the occupancy, or take a larger machine",
                      drawn.size(), all, nodes));
  }
  drawn.resize(static_cast<std::size_t>(nodes));
  std::sort(drawn.begin(), drawn.end());
  return drawn;
}

int leaf_of(const Cluster& cluster, int place) {
  return place / cluster.data().fabric.nodes_per_switch;
}

int leaves_of(const Cluster& cluster) {
  std::set<int> leaves;
  for (int node = 0; node < cluster.nodes(); ++node)
    leaves.insert(leaf_of(cluster, cluster.place_of(node)));
  return static_cast<int>(leaves.size());
}

std::string allocation_text(const Cluster& cluster) {
  if (cluster.places().empty()) return {};
  const int count = leaves_of(cluster);
  const std::vector<Tier>& tiers = cluster.data().fabric.tiers;
  const std::string word = tiers.empty() ? "switch" : tiers.front().word;
  const std::string plural = word == "leaf" ? "leaves" : word + (word == "switch" ? "es" : "s");
  return fmt::format("{} of {} nodes, at {} {}", cluster.nodes(), cluster.machine_nodes(), count,
                     count == 1 ? word : plural);
}

}  // namespace sim
