// Fabrics from their description in a cluster file.
#pragma once

#include <array>
#include <optional>

#include "sim/base/input_error.hpp"
#include "sim/topology/fabric.hpp"

namespace sim {

// FabricSpec is the fabric as the file states it. Which fields a kind uses: topologies/FORMAT.md.
struct FabricSpec {
  FabricKind kind = FabricKind::none;
  Routing routing = Routing::spread;
  std::uint64_t hash_seed = 0;  // of routing by hash, as hash_flows
  int hash_flows = 1;
  bool every_switch = false;    // spines one by one instead of bundled
  bool separate_rails = false;  // each has spines of its own: no path from one to another
  int levels = 2;
  int nodes_per_switch = 1;
  int leaves_per_pod = 0;
  double oversubscription = 1;      // leaf: capacity down over capacity up
  double pod_oversubscription = 1;  // pod spines: the same
  Bandwidth link{};                 // one switch port
  Duration switch_latency{};
  int groups = 0, routers_per_group = 0, global_links = 0;  // dragonfly
  Bandwidth global_link{};
  Duration global_latency{};
  std::array<int, 3> dims{1, 1, 1};  // torus
  int sites = 0;                     // sites: data centres, each of one switch
  Bandwidth site_link{};             // of a site to all others
  Duration site_latency{};           // from one site to another
  SourcePosition where;              // of the fabric in the file, for errors
};

// A fabric for `nodes` nodes with these NICs.
// Throws InputError at spec.where when it does not fit.
Fabric build_fabric(const FabricSpec& spec, int nodes, std::span<const Link> nics);

}  // namespace sim
