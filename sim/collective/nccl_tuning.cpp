#include "sim/collective/nccl_tuning.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "sim/base/check.hpp"

namespace sim {
namespace {

using Row = std::array<double, protocol_count>;  // LL, LL128, Simple

// baseLat, hwLat (NVIDIA/nccl src/graph/tuning.cc v2.30).
constexpr Row tree_base{6.8, 14.0, 8.4};
constexpr Row ring_base{6.6, 14.0, 8.4};
constexpr Row tree_nvlink{0.6, 1.25, 4.0}, ring_nvlink{0.6, 1.9, 3.4};
constexpr Row tree_pci{1.0, 1.9, 4.0}, ring_pci{1.0, 2.5, 5.7};
constexpr Row tree_net{5.0, 8.5, 14.0}, ring_net{2.7, 4.0, 14.0};
constexpr double nvls_nvlink = 25, nvls_net = 18, nvls_tree_nvlink = 25, nvls_tree_net = 20.9;
constexpr double collnet_chain_net = 30;

bool before_ampere(const NcclGroup& group) {
  return group.generation == Generation::volta;
}

// llMaxBw: on one node the row of the generation's own table; on several, rows "Intel and others"
// and "AMD" of the table's first two entries.
double ll_cap(const NcclGroup& group) {
  constexpr std::array<Row, 4> table{
      {{39.0, 39.0, 20.4}, {87.7, 22.5, 19.0}, {141.0, 45.0, 35.0}, {282.0, 90.0, 70.0}}};
  const std::size_t row = group.nodes == 1 ? nccl_row(group.generation) : group.amd ? 1 : 0;
  return table[row][static_cast<std::size_t>(group.span())];
}

// perChMaxRingLL128Bws, perChMaxTreeLL128Bws, perChMaxTreeBws, perChMaxNVLSTreeBws by generation
// and by one, two or more nodes.
using ChannelCaps = std::array<Row, 4>;
constexpr ChannelCaps ring_ll128_caps{
    {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}, {40, 40, 40}}};
constexpr ChannelCaps tree_ll128_caps{
    {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}, {55.6, 31.67, 20}}};
constexpr ChannelCaps tree_caps{
    {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}, {70, 42.8, 24}}};
constexpr ChannelCaps nvls_tree_caps{{{0, 0, 0}, {0, 0, 0}, {0, 57.7, 45.5}, {0, 96, 80}}};

double cap_of(const ChannelCaps& caps, const NcclGroup& group) {
  return caps[nccl_row(group.generation)][static_cast<std::size_t>(group.span())];
}

// treeCorrectionFactor: NCCL's own correction of the tree's bandwidth by log2(bytes / 64).
double tree_correction(Protocol protocol, double bytes) {
  static constexpr std::array<std::array<double, 23>, protocol_count> table{{
      {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1},
      {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1},
      {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9},
  }};
  const double size = std::floor(std::log2(bytes / 64));
  if (!(size >= 0 && size < 23)) return 1;
  return table[static_cast<std::size_t>(column(protocol))][static_cast<std::size_t>(size)];
}

double steps_of(CollectiveKind kind, int ranks) {
  switch (kind) {
    case CollectiveKind::all_reduce:
    case CollectiveKind::barrier:
      return 2.0 * (ranks - 1);
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_gather:
      return ranks - 1;
    default:
      return ranks;
  }
}

double ring_estimate(const NcclGroup& group, CollectiveKind kind, Protocol protocol, double bytes) {
  const double steps = steps_of(kind, group.ranks);
  const HopLatency hop = hop_latency(group, Algorithm::ring, protocol);
  const bool reduces = kind == CollectiveKind::all_reduce || kind == CollectiveKind::barrier;
  const bool rooted = kind == CollectiveKind::broadcast || kind == CollectiveKind::reduce;
  const double across = group.nodes == 1 ? 0
                        : reduces        ? 2.0 * (group.nodes - 1)
                                         : group.nodes - 1.0;
  double latency =
      hop.base +
      (group.nodes > 1 && rooted ? hop.inter : (steps - across) * hop.intra + across * hop.inter);
  if (reduces && protocol == Protocol::simple && group.nodes > 1 &&
      bytes / (group.channels * group.ranks) >= 64)
    latency *= before_ampere(group) ? 1.9 : 1.4;
  const double bus = ring_protocol_bandwidth(group, protocol, group.bus_bw());
  return latency + bytes * steps / group.ranks / (1e3 * bus);
}

double tree_estimate(const NcclGroup& group, Protocol protocol, double bytes) {
  const HopLatency hop = hop_latency(group, Algorithm::tree, protocol);
  const double latency = hop.base + 2 * ((group.ranks_per_node - 1) * hop.intra +
                                         std::floor(std::log2(group.nodes)) * hop.inter);
  const double bus = tree_protocol_bandwidth(group, protocol, group.channels * group.tree_bw) *
                     tree_correction(protocol, bytes);
  return latency + 2 * bytes / (1e3 * bus);
}

double nvls_estimate(const NcclGroup& group, CollectiveKind kind, double bytes) {
  const bool reduces = kind == CollectiveKind::all_reduce || kind == CollectiveKind::barrier;
  const HopLatency hop = hop_latency(group, Algorithm::in_switch, Protocol::simple);
  // Before 2.28 (src/graph/tuning.cc): all 16 channels of the NVLS graph, 20 GB/s each, 5/6 of it,
  // and a hop of 14 us.
  if (group.version < 228 && group.nodes > 1)
    return hop.intra + 28 * std::floor(std::log2(group.nodes)) + bytes / (1e3 * 16 * 20 * 5 / 6);
  const double channels = group.nvls_channels;
  const double share = reduces ? 2 : (group.ranks_per_node - 1.0) / group.ranks_per_node;
  double bw = group.nvls_bw * nvls_efficiency(group.generation) * (channels - 1) / channels * share;
  double latency = hop.intra;
  if (group.nodes > 1) {
    bw = std::min({bw, group.nic_bw * (group.nodes == 2 ? 2 : 1), nvls_tree_channel_cap(group)});
    latency += 2 * std::floor(std::log2(group.nodes)) * hop.inter;
  }
  return latency + bytes * steps_of(kind, group.ranks) / group.ranks / (1e3 * bw * channels);
}

}  // namespace

// By compute capability: below 8.0, below 9.0 (Ada has 8.9), below 10.0, and from there on.
std::size_t nccl_row(Generation generation) {
  switch (generation) {
    case Generation::volta:
      return 0;
    case Generation::ampere:
    case Generation::ada:
      return 1;
    case Generation::hopper:
      return 2;
    case Generation::blackwell:
      return 3;
    case Generation::cdna2:
    case Generation::cdna3:
    case Generation::cdna4:
    case Generation::cpu:
      break;
  }
  SIM_CHECK(false, "NCCL has no table of ", word(generation));
}

HopLatency hop_latency(const NcclGroup& group, Algorithm algorithm, Protocol protocol) {
  if (!group.nccl) return {};
  if (group.rccl) return rccl_hop_latency(group, algorithm, protocol);
  const auto c = static_cast<std::size_t>(column(protocol));
  // NCCL_NET_OVERHEAD: 1 us, 2 us on AMD hosts, three times that for Simple.
  const double overhead =
      group.nodes == 1 ? 0 : (group.amd ? 2.0 : 1.0) * (protocol == Protocol::simple ? 3 : 1);
  switch (algorithm) {
    case Algorithm::tree:
      return {tree_base[c], group.pcie ? tree_pci[c] : tree_nvlink[c], tree_net[c]};
    case Algorithm::in_switch:
      return {0, group.nodes > 1 ? nvls_tree_nvlink : nvls_nvlink,
              group.nodes > 1 ? nvls_tree_net : nvls_net};
    default:
      // A ring over nodes steps at the pace of its network proxy; with one rank per node NCCL takes
      // the tree's network latency, since the ring's was fitted with steps inside nodes between.
      return {ring_base[c], std::max(group.pcie ? ring_pci[c] : ring_nvlink[c], overhead),
              group.ranks_per_node == 1 ? tree_net[c] : ring_net[c]};
  }
}

double sharp_latency(bool with_nvls) {
  return with_nvls ? nvls_net : collnet_chain_net;
}

double ring_protocol_bandwidth(const NcclGroup& group, Protocol protocol, double bus) {
  if (!group.nccl) return bus;
  if (group.rccl) return bus * rccl_ring_share(protocol);
  switch (protocol) {
    case Protocol::ll:
      return std::min(ll_cap(group), 0.5 * bus);
    case Protocol::ll128:
      return std::min(0.92 * bus, group.channels * cap_of(ring_ll128_caps, group));
    default:
      return bus;
  }
}

double tree_protocol_bandwidth(const NcclGroup& group, Protocol protocol, double bus) {
  if (!group.nccl) return bus;
  if (group.rccl) return bus * rccl_tree_share(protocol);
  const double bw = std::min(0.92 * bus, group.channels * cap_of(tree_caps, group));
  switch (protocol) {
    case Protocol::ll:
      return std::min(bw / 3.8, ll_cap(group));
    case Protocol::ll128:
      return std::min(bw * (group.nodes == 1 ? 7.0 / 9 : 120.0 / 128),
                      group.channels * cap_of(tree_ll128_caps, group));
    default:
      return bw;
  }
}

double nvls_efficiency(Generation generation) {
  constexpr std::array efficiency{0.0, 0.0, 0.85, 0.74};
  if (generation == Generation::cpu || is_cdna(generation)) return 0;
  return efficiency[nccl_row(generation)];
}

double nvls_tree_channel_cap(const NcclGroup& group) {
  return cap_of(nvls_tree_caps, group);
}

int blocks_used(const NcclGroup& group, Algorithm algorithm, Protocol protocol, double bytes) {
  if (algorithm == Algorithm::in_switch) return std::max(1, group.nvls_channels);
  // Bytes per thread below which a channel is dropped, and threads of a block.
  double threshold = protocol == Protocol::simple ? 64 : 8;
  if (protocol == Protocol::ll && algorithm == Algorithm::ring) threshold *= group.ranks;
  const double threads = protocol == Protocol::ll128 ? 640 : 512;
  const double worth = std::min(bytes / (threads * threshold), 64.0);
  return std::clamp(static_cast<int>(worth), 1, group.blocks);
}

// LL128 needs one generation: minCompCap == maxCompCap in src/graph/tuning.cc.
bool ll128_enabled(const NcclGroup& group, PathKind intra) {
  return !group.rccl && !group.generations_differ &&
         (group.ranks_per_node == 1 || intra <= PathKind::nvlink);
}

double nccl_estimate(const NcclGroup& group, CollectiveKind kind, Algorithm algorithm,
                     Protocol protocol, double bytes) {
  constexpr double never = std::numeric_limits<double>::infinity();
  if (group.rccl) return rccl_estimate(group, kind, algorithm, protocol, bytes);
  const bool reduces = kind == CollectiveKind::all_reduce || kind == CollectiveKind::barrier;
  switch (algorithm) {
    case Algorithm::ring:
      return ring_estimate(group, kind, protocol, bytes);
    case Algorithm::tree:
      return reduces ? tree_estimate(group, protocol, bytes) : never;
    case Algorithm::in_switch: {
      const bool scatters =
          kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::all_gather;
      const bool offered = group.nvls && protocol == Protocol::simple && group.nvls_channels >= 2 &&
                           (reduces || (scatters && group.nodes == 1));
      return offered ? nvls_estimate(group, kind, bytes) : never;
    }
    default:
      return never;
  }
}

}  // namespace sim
