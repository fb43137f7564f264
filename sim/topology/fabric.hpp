// The switches between the nodes and the links between the switches.
//
// In a tree (fat tree and rail-optimised fabric with their spines bundled, flat) the one path
// between two leaves is found by climbing to the common ancestor. Any other fabric is searched,
// once per pair of switches, and the result is kept.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sim/base/words.hpp"
#include "sim/topology/cluster.hpp"

namespace sim {

enum class FabricKind : std::uint8_t {
  none,
  flat,
  fat_tree,
  rail_optimised,
  dragonfly,
  torus,
  sites
};
constexpr auto words_of(FabricKind) {
  return std::array{
      Word{FabricKind::none, "none"},           Word{FabricKind::flat, "flat"},
      Word{FabricKind::fat_tree, "fat_tree"},   Word{FabricKind::rail_optimised, "rail_optimised"},
      Word{FabricKind::dragonfly, "dragonfly"}, Word{FabricKind::torus, "torus"},
      Word{FabricKind::sites, "sites"}};
}

enum class Routing : std::uint8_t { spread, hash };
constexpr auto words_of(Routing) {
  return std::array{Word{Routing::spread, "spread"}, Word{Routing::hash, "hash"}};
}

inline constexpr int most_hash_flows = 128;  // of hash routing, between two GPUs

struct FabricLink {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  Link link;
  int bundled = 1;           // cables that this one stands for
  std::uint32_t weight = 1;  // length, for shortest paths
};

// Switches of one kind, numbered 0.. within it; `inner` > 1 numbers them as two parts: "leaf 3.7".
struct Tier {
  std::string word;
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  std::uint32_t inner = 1;
};

class Fabric {
 public:
  FabricKind kind = FabricKind::none;
  Routing routing = Routing::spread;
  // Hash routing: another seed is another hash function; between two GPUs so many flows share
  // the traffic evenly, each hashed by itself.
  std::uint64_t hash_seed = 0;
  int hash_flows = 1;
  std::uint32_t switches = 0;
  std::vector<Tier> tiers;
  std::vector<FabricLink> links;
  Duration switch_latency{};
  // Where NIC n of a node attaches: switch (node / nodes_per_switch) * rails + rail_of_nic[n].
  int nodes_per_switch = 1;
  int rails = 1;
  bool separate_rails = false;  // no path from one to another
  std::vector<int> rail_of_nic;
  std::string shape;  // one line for describe()

  Fabric();
  Fabric(Fabric&&) noexcept;
  Fabric& operator=(Fabric&&) noexcept;
  ~Fabric();

  std::uint32_t add_tier(std::string word, std::uint32_t count, std::uint32_t inner = 1);
  // Both directions.
  void connect(std::uint32_t a, std::uint32_t b, Link link, int bundled = 1,
               std::uint32_t weight = 1);
  // To be called once all links are there.
  void finish();

  std::uint32_t switch_of(int node, int nic) const {
    const auto group = static_cast<std::uint32_t>(node / nodes_per_switch);
    return group * static_cast<std::uint32_t>(rails) +
           static_cast<std::uint32_t>(rail_of_nic[static_cast<std::size_t>(nic)]);
  }
  std::string switch_name(std::uint32_t index) const;
  std::string link_name(std::uint32_t index) const;  // "leaf 7 -> spine 0 (x8)"

  // Appends the path as hops whose link is an index in `links`. `flow` picks the path of hash
  // routing; its hash_flows may recur to a link. False if there is no path.
  bool path(std::uint32_t from, std::uint32_t to, std::uint64_t flow, std::vector<Hop>& hops) const;
  // The same by search, whatever the fabric is: the oracle of the tests.
  bool searched_path(std::uint32_t from, std::uint32_t to, std::uint64_t flow,
                     std::vector<Hop>& hops) const;

  bool is_tree() const { return !up_.empty(); }
  void kill(std::uint32_t link);  // forgets the paths found so far
  bool has_dead_links() const { return dead_ > 0; }

 private:
  struct Search;  // the graph and what has been found in it
  bool tree_path(std::uint32_t from, std::uint32_t to, std::vector<Hop>& hops) const;
  bool paths_of_flows(std::uint32_t from, std::uint32_t to, std::uint64_t flow,
                      std::vector<Hop>& hops) const;

  std::vector<bool> alive_;
  std::uint32_t dead_ = 0;
  // For a tree: each switch's link to its parent and from it (no_link at a root), and its depth.
  static constexpr std::uint32_t no_link = ~std::uint32_t{0};
  std::vector<std::uint32_t> up_, down_;
  std::vector<std::uint8_t> depth_;
  mutable std::unique_ptr<Search> search_;
};

}  // namespace sim
