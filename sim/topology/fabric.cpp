#include "sim/topology/fabric.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/base/random.hpp"
#include "sim/topology/paths.hpp"

namespace sim {
namespace {

// Flows are told apart by this many hash values, as a switch's hash buckets do.
constexpr std::uint64_t hash_buckets = 256;
// Paths kept at most; then the store starts afresh.
constexpr std::size_t kept_paths = std::size_t{1} << 20;
constexpr std::size_t kept_targets = std::size_t{1} << 12;

}  // namespace

// Guarded by `mutex`: route() is const and may be called from several threads. The maps are only
// looked up, never iterated.
struct Fabric::Search {
  std::mutex mutex;
  std::optional<PathGraph> graph;
  std::unordered_map<std::uint32_t, PathGraph::Distances> to_target;
  std::unordered_map<std::uint64_t, std::vector<Hop>> paths;
};

Fabric::Fabric() : search_{std::make_unique<Search>()} {}
Fabric::Fabric(Fabric&&) noexcept = default;
Fabric& Fabric::operator=(Fabric&&) noexcept = default;
Fabric::~Fabric() = default;

std::uint32_t Fabric::add_tier(std::string tier, std::uint32_t count, std::uint32_t inner) {
  const std::uint32_t first = switches;
  tiers.push_back({std::move(tier), first, count, inner});
  switches += count;
  return first;
}

void Fabric::connect(std::uint32_t a, std::uint32_t b, Link link, int bundled,
                     std::uint32_t weight) {
  links.push_back({a, b, link, bundled, weight});
  links.push_back({b, a, link, bundled, weight});
}

// A tree is recognised by its shape: links come in pairs, every switch but the roots has one link
// to a switch of a later tier, and all roads end in one root, or in one of each rail.
void Fabric::finish() {
  alive_.assign(links.size(), true);
  std::vector<std::uint32_t> up(switches, no_link);
  std::vector<std::uint32_t> down(switches, no_link);
  for (std::uint32_t i = 0; i < links.size(); ++i) {
    const FabricLink& link = links[i];
    std::uint32_t& slot = link.from < link.to ? up[link.from] : down[link.to];
    if (slot != no_link) return;  // two parents: not a tree
    slot = i;
  }
  std::vector<std::uint8_t> depth(switches, 0);
  std::uint32_t roots = 0;
  for (std::uint32_t s = switches; s-- > 0;) {
    if (up[s] == no_link)
      ++roots;
    else
      depth[s] = static_cast<std::uint8_t>(depth[links[up[s]].to] + 1);
  }
  if ((roots > 1 && !separate_rails) ||
      (kind != FabricKind::flat && kind != FabricKind::fat_tree &&
       kind != FabricKind::rail_optimised && kind != FabricKind::sites))
    return;
  up_ = std::move(up);
  down_ = std::move(down);
  depth_ = std::move(depth);
}

std::string Fabric::switch_name(std::uint32_t index) const {
  for (const Tier& tier : tiers) {
    if (index >= tier.first + tier.count) continue;
    const std::uint32_t number = index - tier.first;
    if (tier.inner > 1)
      return fmt::format("{} {}.{}", tier.word, number / tier.inner, number % tier.inner);
    return tier.count > 1 ? fmt::format("{} {}", tier.word, number) : tier.word;
  }
  SIM_CHECK(false, "no switch", index);
}

std::string Fabric::link_name(std::uint32_t index) const {
  const FabricLink& link = links[index];
  std::string name = switch_name(link.from) + " -> " + switch_name(link.to);
  if (link.bundled > 1) name += fmt::format(" (x{})", link.bundled);
  return name;
}

bool Fabric::tree_path(std::uint32_t from, std::uint32_t to, std::vector<Hop>& hops) const {
  std::array<std::uint32_t, 256> descent{};
  std::size_t steps = 0;
  while (from != to) {
    // The deeper of the two climbs; of two equally deep ones, both do in turn.
    if (depth_[from] >= depth_[to]) {
      const std::uint32_t link = up_[from];
      if (link == no_link || !alive_[link]) return false;
      hops.push_back({LinkId{link}, whole_share});
      from = links[link].to;
    } else {
      const std::uint32_t link = down_[to];
      if (!alive_[link]) return false;
      descent[steps++] = link;
      to = links[link].from;
    }
  }
  while (steps > 0)
    hops.push_back({LinkId{descent[--steps]}, whole_share});
  return true;
}

bool Fabric::path(std::uint32_t from, std::uint32_t to, std::uint64_t flow,
                  std::vector<Hop>& hops) const {
  if (from == to) return true;
  if (is_tree()) return tree_path(from, to, hops);
  return routing == Routing::hash && hash_flows > 1 ? paths_of_flows(from, to, flow, hops)
                                                    : searched_path(from, to, flow, hops);
}

bool Fabric::paths_of_flows(std::uint32_t from, std::uint32_t to, std::uint64_t flow,
                            std::vector<Hop>& hops) const {
  const auto flows = static_cast<std::uint32_t>(hash_flows);
  for (std::uint32_t i = 0; i < flows; ++i) {
    const std::size_t first = hops.size();
    if (!searched_path(from, to, hash_combine(flow, i), hops)) return false;
    const std::uint32_t share = whole_share / flows + (i < whole_share % flows ? 1 : 0);
    for (std::size_t h = first; h < hops.size(); ++h)
      hops[h].share = share;
  }
  return true;
}

bool Fabric::searched_path(std::uint32_t from, std::uint32_t to, std::uint64_t flow,
                           std::vector<Hop>& hops) const {
  if (from == to) return true;
  const std::uint64_t bucket = routing == Routing::hash ? mix64(flow) % hash_buckets : 0;
  SIM_CHECK(switches < (1U << 28), switches);
  const std::uint64_t key = (std::uint64_t{from} << 36) | (std::uint64_t{to} << 8) | bucket;
  const std::lock_guard lock{search_->mutex};
  if (!search_->graph) {
    std::vector<Arc> arcs;
    for (const FabricLink& link : links)
      arcs.push_back({link.from, link.to, link.weight});
    search_->graph.emplace(switches, arcs);
  }
  if (const auto found = search_->paths.find(key); found != search_->paths.end()) {
    hops.insert(hops.end(), found->second.begin(), found->second.end());
    return true;
  }
  if (search_->to_target.size() >= kept_targets) search_->to_target.clear();
  auto [distances, fresh] = search_->to_target.try_emplace(to);
  if (fresh) distances->second = search_->graph->distances_to(to, alive_);
  if (distances->second[from] == PathGraph::unreachable) return false;
  const std::vector<ArcShare> arcs =
      routing == Routing::hash
          ? search_->graph->one_path(from, to, distances->second, alive_,
                                     hash_seed == 0 ? mix64(key) : hash_combine(hash_seed, key))
          : search_->graph->spread(from, to, distances->second, alive_);
  if (search_->paths.size() >= kept_paths) search_->paths.clear();
  std::vector<Hop>& kept = search_->paths[key];
  for (const ArcShare& arc : arcs)
    kept.push_back({LinkId{arc.arc}, arc.share});
  hops.insert(hops.end(), kept.begin(), kept.end());
  return true;
}

void Fabric::kill(std::uint32_t link) {
  if (alive_[link]) ++dead_;
  alive_[link] = false;
  const std::lock_guard lock{search_->mutex};
  search_->to_target.clear();
  search_->paths.clear();
}

}  // namespace sim
