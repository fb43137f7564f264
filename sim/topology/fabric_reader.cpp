#include "sim/topology/fabric_reader.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/topology/node_builders.hpp"

namespace sim {
namespace {

void read_clos(const ObjectReader& reader, FabricSpec& spec, int nics) {
  spec.levels = as_int(reader.integer_or("levels", 2, {.min = 2, .max = 3}));
  spec.oversubscription = reader.real_or("oversubscription", 1, {.min = 0.125, .max = 1000});
  const int per_leaf_node = spec.kind == FabricKind::rail_optimised ? 1 : std::max(1, nics);
  const int radix = as_int(reader.integer_or("radix", 0, {.min = 2, .max = 4096}));
  if (radix > 0) {
    // Ports down : ports up = over-subscription : 1.
    const double down = radix * spec.oversubscription / (1 + spec.oversubscription);
    spec.nodes_per_switch = static_cast<int>(down) / per_leaf_node;
    if (spec.nodes_per_switch < 1)
      reader.problem("radix", fmt::format("a switch of {} ports has {} for nodes, fewer than the "
                                          "{} NICs of one",
                                          radix, static_cast<int>(down), per_leaf_node));
  }
  if (radix == 0 || reader.has("nodes_per_leaf"))
    spec.nodes_per_switch = as_int(reader.integer("nodes_per_leaf", {.min = 1, .max = most_nodes}));
  if (spec.levels == 3) {
    spec.leaves_per_pod =
        as_int(reader.integer_or("leaves_per_pod", radix / 2, {.min = 1, .max = most_nodes}));
    if (spec.leaves_per_pod < 1)
      reader.problem("a fabric of 3 levels needs leaves_per_pod or radix");
    spec.pod_oversubscription =
        reader.real_or("pod_oversubscription", 1, {.min = 0.125, .max = 1000});
  }
  spec.every_switch = reader.boolean_or("every_switch", spec.routing == Routing::hash);
  spec.separate_rails = reader.boolean_or("separate_rails", false);
  if (spec.separate_rails && spec.kind != FabricKind::rail_optimised)
    reader.problem("separate_rails", "separate_rails goes with kind: rail_optimised");
  if (spec.routing == Routing::hash && !spec.every_switch)
    reader.problem("every_switch", "routing by hash picks one spine, so every_switch must be true");
}

void read_dragonfly(const ObjectReader& reader, FabricSpec& spec) {
  spec.groups = as_int(reader.integer("groups", {.min = 1, .max = 4096}));
  spec.routers_per_group = as_int(reader.integer("routers_per_group", {.min = 1, .max = 256}));
  spec.global_links = as_int(reader.integer("global_links_per_router", {.min = 1, .max = 256}));
  spec.nodes_per_switch = as_int(reader.integer("nodes_per_router", {.min = 1, .max = 1024}));
  spec.global_link = reader.bandwidth_or("global_link", spec.link);
  spec.global_latency = reader.duration_or("global_latency", Duration{});
}

void read_torus(const ObjectReader& reader, FabricSpec& spec) {
  const std::vector<ValueReader> dims = reader.list("dims");
  if (dims.empty() || dims.size() > 3) {
    reader.problem("dims", "dims has one to three sizes, for example [8, 8, 4]");
    return;
  }
  for (std::size_t i = 0; i < dims.size(); ++i)
    spec.dims[i] = as_int(dims[i].integer({.min = 1, .max = 64}));
  spec.nodes_per_switch = as_int(reader.integer_or("nodes_per_router", 1, {.min = 1, .max = 1024}));
}

void read_sites(const ObjectReader& reader, FabricSpec& spec) {
  spec.sites = as_int(reader.integer("sites", {.min = 1, .max = 4096}));
  spec.site_link = reader.bandwidth("bandwidth");
  spec.site_latency = reader.duration("latency");
}

}  // namespace

FabricSpec read_fabric(const ObjectReader& reader, std::span<const Link> nics) {
  FabricSpec spec;
  spec.where = reader.where("kind");
  spec.kind = reader.word<FabricKind>("kind");
  if (spec.kind == FabricKind::none) return spec;
  spec.switch_latency = reader.duration("switch_latency");
  const Bandwidth nic = nics.empty() ? Bandwidth{} : nics.front().capacity;
  spec.link = nic;
  switch (spec.kind) {
    case FabricKind::none:
    case FabricKind::flat:
      return spec;
    case FabricKind::sites:
      read_sites(reader, spec);
      return spec;
    case FabricKind::fat_tree:
    case FabricKind::rail_optimised:
    case FabricKind::dragonfly:
    case FabricKind::torus:
      break;
  }
  spec.routing = reader.word_or<Routing>("routing", Routing::spread);
  spec.hash_seed = static_cast<std::uint64_t>(reader.integer_or("hash_seed", 0, {.min = 0}));
  spec.hash_flows = as_int(reader.integer_or("hash_flows", 1, {.min = 1, .max = most_hash_flows}));
  spec.link = reader.bandwidth_or("link", nic);
  if (spec.kind == FabricKind::dragonfly)
    read_dragonfly(reader, spec);
  else if (spec.kind == FabricKind::torus)
    read_torus(reader, spec);
  else
    read_clos(reader, spec, static_cast<int>(nics.size()));
  return spec;
}

Transport read_transport(const ObjectReader& reader) {
  constexpr RealRange chance{.min = 0, .max = 0.5};
  Transport transport;
  transport.nic_loss = reader.real_or("loss", 0, chance);
  transport.fabric_loss = reader.real_or("fabric_loss", transport.nic_loss, chance);
  transport.recovery = reader.word_or<LossRecovery>("recovery", transport.recovery);
  transport.mtu = reader.bytes_or("mtu", transport.mtu);
  transport.timeout = reader.duration_or("timeout", transport.timeout);
  transport.retries = as_int(reader.integer_or("retries", transport.retries, {.min = 0, .max = 7}));
  transport.window = reader.bytes_or("window", transport.window);
  transport.round_trip = reader.duration_or("round_trip", transport.round_trip);
  if (transport.mtu < Bytes{256} || transport.mtu > Bytes{65536})
    reader.problem("mtu", "mtu is a packet's payload; allowed: 256 B to 64 KiB");
  if (transport.timeout <= Duration{})
    reader.problem("timeout", "timeout is 0; allowed: more, such as 100 us");
  if (transport.window > Bytes{} && transport.window < transport.mtu)
    reader.problem("window", "window is less than one packet (mtu); allowed: at least as much");
  return transport;
}

}  // namespace sim
