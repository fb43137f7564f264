#include "sim/topology/fabric_builders.hpp"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "sim/base/check.hpp"
#include "sim/base/input_error.hpp"
#include "sim/base/quantity.hpp"
#include "sim/base/rounding.hpp"

namespace sim {
namespace {

std::uint32_t as_unsigned(int value) {
  return static_cast<std::uint32_t>(value);
}

Link switch_link(Bandwidth capacity, Duration latency) {
  return {LinkKind::fabric, capacity, latency};
}

// The number of ports that carry `down` / ratio up, which must come out whole: half a cable is a
// mistake in the file.
int uplinks(const FabricSpec& spec, double down, double ratio, const char* of) {
  const double exact = down / (ratio * spec.link.in_bytes_per_second());
  const double whole = std::round(exact);
  if (!(whole < 1e6))
    throw InputError(spec.where, fmt::format("{} needs {:.4g} uplinks; at most a million are "
                                             "supported",
                                             of, exact));
  if (whole < 1 || std::abs(exact - whole) > 1e-6 * whole)
    throw InputError(spec.where,
                     fmt::format("{} needs {:.4g} uplinks of {} for {} down at {:g}:1; choose "
                                 "an over-subscription that gives a whole number",
                                 of, exact, to_text(spec.link),
                                 to_text(Bandwidth::bytes_per_second(down)), ratio));
  return static_cast<int>(whole);
}

// A description of a few bytes must not ask for all memory.
constexpr std::int64_t most_fabric_switches = 1 << 18;
constexpr std::int64_t most_links = 1 << 22;

void check_size(const FabricSpec& spec, std::int64_t switches, std::int64_t links) {
  if (switches > most_fabric_switches || links > most_links)
    throw InputError(spec.where, fmt::format("{} switches and {} links are too many; at most {} "
                                             "and {} are supported",
                                             switches, links, most_fabric_switches, most_links));
}

// Connects children to `bundle` parallel parents: as one bundle or one by one.
// Parents are [parents, parents + 1) when bundled, else [parents, parents + bundle).
void connect_up(Fabric& fabric, const FabricSpec& spec, std::uint32_t child, std::uint32_t parents,
                int bundle) {
  if (!spec.every_switch) {
    fabric.connect(child, parents, switch_link(spec.link * bundle, spec.switch_latency), bundle);
    return;
  }
  for (int i = 0; i < bundle; ++i)
    fabric.connect(child, parents + as_unsigned(i), switch_link(spec.link, spec.switch_latency));
}

// SpineBlocks are joined by core switches: blocks of spines, as many planes, uplinks of a leaf and
// of a spine.
struct SpineBlocks {
  int blocks, planes, up, pod_up;
};

// Core switch (i, j) joins spine i of every block of its plane by its j-th uplink, as in a folded
// Clos.
void connect_cores(Fabric& fabric, const FabricSpec& spec, std::uint32_t spine,
                   const SpineBlocks& of) {
  const int spines = spec.every_switch ? of.up : 1;
  const int cores = spec.every_switch ? of.up * of.pod_up : 1;
  const std::uint32_t core = fabric.add_tier("core", as_unsigned(of.planes * cores));
  for (int b = 0; b < of.blocks; ++b)
    for (int s = 0; s < spines; ++s) {
      const std::uint32_t from = spine + as_unsigned(b * spines + s);
      const std::uint32_t own = core + as_unsigned(b % of.planes * cores);
      if (spec.every_switch)
        connect_up(fabric, spec, from, own + as_unsigned(s * of.pod_up), of.pod_up);
      else
        connect_up(fabric, spec, from, own, of.up * of.pod_up);
    }
}

// Leaves with their spines. `rails` leaves serve each group of nodes; spine blocks of three-level
// fabrics serve leaves_per_pod leaves: of all rails where rails are mixed (fat tree has one), of
// one rail in a rail-optimised fabric. Rails that are separate have spines and cores of their own:
// rail-only networks (Wang et al. 2023, arXiv:2307.12169) and fat trees of several planes
// (Zhao et al. 2025, arXiv:2505.09343, section 5.1).
void build_clos(Fabric& fabric, const FabricSpec& spec, int nodes, double down) {
  const int rails = fabric.rails;
  const int groups = divide_up(nodes, spec.nodes_per_switch);
  check_size(spec, std::int64_t{groups} * rails, std::int64_t{groups} * rails);
  const std::uint32_t leaf =
      fabric.add_tier("leaf", as_unsigned(groups * rails), as_unsigned(rails));
  const int up = uplinks(spec, down, spec.oversubscription, "a leaf");
  if (spec.every_switch)
    check_size(spec, std::int64_t{groups} * rails + up, std::int64_t{groups} * rails * up * 2);
  fabric.shape = fmt::format("{} leaves of {} nodes", groups * rails, spec.nodes_per_switch);
  if (rails > 1) fabric.shape += fmt::format(" on {} rails", rails);
  fabric.shape += fmt::format(", {} uplinks each ({:g}:1)", up, spec.oversubscription);
  if (groups * rails == 1) return;  // one leaf: nothing to climb to
  const int spines = spec.every_switch ? up : 1;
  const int planes = spec.separate_rails ? rails : 1;
  fabric.separate_rails = planes > 1;
  if (planes > 1) fabric.shape += ", each rail by itself";
  if (planes > 1 && groups == 1) return;
  if (spec.levels == 2) {
    const std::uint32_t spine = fabric.add_tier("spine", as_unsigned(planes * spines));
    for (int l = 0; l < groups * rails; ++l)
      connect_up(fabric, spec, leaf + as_unsigned(l), spine + as_unsigned(l % planes * spines), up);
    return;
  }
  const int pods = divide_up(groups, spec.leaves_per_pod);
  const double pod_down = spec.link.in_bytes_per_second() * spec.leaves_per_pod;
  // Uplinks of one spine switch, which has one port down to every leaf of its pod.
  const int pod_up = uplinks(spec, pod_down, spec.pod_oversubscription, "a spine");
  const std::uint32_t spine =
      fabric.add_tier("spine", as_unsigned(pods * rails * spines), as_unsigned(rails * spines));
  for (int g = 0; g < groups; ++g)
    for (int r = 0; r < rails; ++r)
      connect_up(fabric, spec, leaf + as_unsigned(g * rails + r),
                 spine + as_unsigned(((g / spec.leaves_per_pod) * rails + r) * spines), up);
  fabric.shape += fmt::format(", {} spine blocks of {} leaves ({:g}:1)", pods * rails,
                              spec.leaves_per_pod, spec.pod_oversubscription);
  if (pods * rails > planes) connect_cores(fabric, spec, spine, {pods * rails, planes, up, pod_up});
}

void build_flat(Fabric& fabric, int nodes) {
  fabric.add_tier("switch", 1);
  fabric.nodes_per_switch = nodes;
  fabric.shape = "one switch";
}

// Data centres that are joined by a network of another kind: within one all nodes are at one
// switch, and a site's link to the others is shared by its nodes.
void build_sites(Fabric& fabric, const FabricSpec& spec, int nodes) {
  if (nodes % spec.sites != 0)
    throw InputError(spec.where, fmt::format("{} nodes are not the same number on each of {} sites",
                                             nodes, spec.sites));
  fabric.nodes_per_switch = nodes / spec.sites;
  const std::uint32_t first = fabric.add_tier("site", as_unsigned(spec.sites));
  fabric.shape = fmt::format("{} sites of {} nodes, {} each to the others", spec.sites,
                             fabric.nodes_per_switch, to_text(spec.site_link));
  if (spec.sites == 1) return;
  const std::uint32_t core = fabric.add_tier("core", 1);
  for (int site = 0; site < spec.sites; ++site)
    fabric.connect(first + as_unsigned(site), core,
                   switch_link(spec.site_link, spec.site_latency / 2));
}

// Kim, Dally, Scott & Abts, "Technology-Driven, Highly-Scalable Dragonfly Topology" (ISCA 2008):
// full mesh within a group; the groups' global ports join all pairs of groups equally often, port p
// of group i (router p / h) leading to the p-th other group ("absolute" arrangement).
void build_dragonfly(Fabric& fabric, const FabricSpec& spec, int nodes) {
  const int a = spec.routers_per_group;
  const int h = spec.global_links;
  const int groups = spec.groups;
  if (nodes > groups * a * spec.nodes_per_switch)
    throw InputError(spec.where, fmt::format("{} nodes do not fit: {} groups x {} routers x {} "
                                             "nodes per router = {}",
                                             nodes, groups, a, spec.nodes_per_switch,
                                             groups * a * spec.nodes_per_switch));
  const int copies = groups > 1 ? a * h / (groups - 1) : 0;
  if (groups > 1 && copies == 0)
    throw InputError(spec.where, fmt::format("{} groups need {} global links per group, but {} "
                                             "routers x {} global links give {}",
                                             groups, groups - 1, a, h, a * h));
  check_size(spec, std::int64_t{groups} * a,
             std::int64_t{groups} * a * (a - 1) + std::int64_t{groups} * (groups - 1) * copies);
  fabric.add_tier("router", as_unsigned(groups * a), as_unsigned(a));
  const Link local = switch_link(spec.link, spec.switch_latency);
  for (int g = 0; g < groups; ++g)
    for (int i = 0; i < a; ++i)
      for (int j = i + 1; j < a; ++j)
        fabric.connect(as_unsigned(g * a + i), as_unsigned(g * a + j), local);
  const Link global = switch_link(spec.global_link, spec.switch_latency + spec.global_latency);
  for (int copy = 0; copy < copies; ++copy)
    for (int i = 0; i < groups; ++i)
      for (int j = i + 1; j < groups; ++j) {
        const int port_i = copy * (groups - 1) + j - 1;
        const int port_j = copy * (groups - 1) + i;
        // A global hop weighs 3 local ones, so that minimal routes are local-global-local and
        // never global-global through a third group.
        fabric.connect(as_unsigned(i * a + port_i / h), as_unsigned(j * a + port_j / h), global, 1,
                       3);
      }
  fabric.shape =
      fmt::format("{} groups x {} routers x {} nodes, {} global links per pair of groups", groups,
                  a, spec.nodes_per_switch, copies);
}

void build_torus(Fabric& fabric, const FabricSpec& spec, int nodes) {
  const int x = spec.dims[0];
  const int y = spec.dims[1];
  const int z = spec.dims[2];
  const int routers = x * y * z;
  if (nodes > routers * spec.nodes_per_switch)
    throw InputError(spec.where, fmt::format("{} nodes do not fit: {} x {} x {} routers x {} "
                                             "nodes per router = {}",
                                             nodes, x, y, z, spec.nodes_per_switch,
                                             routers * spec.nodes_per_switch));
  fabric.add_tier("router", as_unsigned(routers));
  const auto join = [&](int from, int to, int size) {
    if (size == 1 || (size == 2 && to < from)) return;
    // In a ring of two both cables lead to the same neighbour.
    const int cables = size == 2 ? 2 : 1;
    fabric.connect(as_unsigned(from), as_unsigned(to),
                   switch_link(spec.link * cables, spec.switch_latency), cables);
  };
  for (int k = 0; k < z; ++k)
    for (int j = 0; j < y; ++j)
      for (int i = 0; i < x; ++i) {
        const auto at = [&](int u, int v, int w) { return ((w % z) * y + v % y) * x + u % x; };
        join(at(i, j, k), at(i + 1, j, k), x);
        join(at(i, j, k), at(i, j + 1, k), y);
        join(at(i, j, k), at(i, j, k + 1), z);
      }
  fabric.shape =
      fmt::format("{} x {} x {} torus, {} nodes per router", x, y, z, spec.nodes_per_switch);
}

}  // namespace

Fabric build_fabric(const FabricSpec& spec, int nodes, std::span<const Link> nics) {
  Fabric fabric;
  fabric.kind = spec.kind;
  fabric.routing = spec.routing;
  fabric.hash_seed = spec.hash_seed;
  fabric.hash_flows = spec.hash_flows;
  fabric.switch_latency = spec.switch_latency;
  fabric.nodes_per_switch = spec.nodes_per_switch;
  fabric.rail_of_nic.assign(nics.size(), 0);
  double node_rate = 0;
  for (const Link& nic : nics)
    node_rate += nic.capacity.in_bytes_per_second();
  switch (spec.kind) {
    case FabricKind::none:
      break;
    case FabricKind::flat:
      build_flat(fabric, nodes);
      break;
    case FabricKind::fat_tree:
      build_clos(fabric, spec, nodes, node_rate * spec.nodes_per_switch);
      break;
    case FabricKind::rail_optimised:
      std::iota(fabric.rail_of_nic.begin(), fabric.rail_of_nic.end(), 0);
      fabric.rails = static_cast<int>(nics.size());
      build_clos(fabric, spec, nodes,
                 nics.front().capacity.in_bytes_per_second() * spec.nodes_per_switch);
      break;
    case FabricKind::dragonfly:
      build_dragonfly(fabric, spec, nodes);
      break;
    case FabricKind::sites:
      build_sites(fabric, spec, nodes);
      break;
    case FabricKind::torus:
      build_torus(fabric, spec, nodes);
      break;
  }
  fabric.finish();
  return fabric;
}

}  // namespace sim
