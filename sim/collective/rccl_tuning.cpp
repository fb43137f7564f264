// RCCL's own model of its collectives: NCCL's, with other constants, and its channels on a mesh of
// xGMI links. Source: ROCm/rocm-systems at 03a89144, projects/rccl/src/graph/tuning.cc (baseLat and
// tuning_model_5, which rcclGetTuningIndexForArch gives gfx942; gfx950's tuning_model_6 has the
// same latencies and ratios), and ROCm/rccl at 0cbce2a7, src/graph/rome_models.cc and src/init.cc.
// gfx90a has these constants here, too.
// Times are in microseconds and bandwidths in GB/s.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "sim/collective/algorithms.hpp"

namespace sim {
namespace {

using Row = std::array<double, protocol_count>;  // LL, LL128, Simple

constexpr Row base_latency{12, 12, 17};
constexpr Row tree_xgmi{0.9, 0.9, 2.3}, ring_xgmi{0.8, 0.8, 2.1};
constexpr Row pci{2.2, 2.2, 5.7};
constexpr Row tree_net_rccl{10.5, 10.5, 25};
// 320 keeps RCCL from rings between nodes up to 128 MiB: no hop takes that long.
constexpr Row ring_net_choice{9.5, 9.5, 320};
constexpr Row ring_net_rccl{9.5, 9.5, tree_net_rccl[2]};

// bwRatio: of the bus bandwidth, over up to two nodes and over more.
constexpr Row ring_ratio{0.08, 0.08, 1};
constexpr std::array<Row, 2> tree_ratio{{{0.06, 0.06, 0.11}, {0.06, 0.06, 0.59}}};

// treeCorrectionFactor and ringCorrectionFactor, by log2(bytes / 64). LL128 has the factors of LL.
using Factors = std::array<double, 27>;
constexpr Factors tree_ll{.1, .1, .1, .1, .1, .1, 1,  1,  1,  1,  1,  .6, 1, .9,
                          1,  1,  .1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1};
constexpr Factors tree_simple{.1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1,
                              .1, .7, 1,  1,  1,  1,  1,  .7, .7, .5, .6, .6, .6};
constexpr Factors ring_ll{.1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1, 1,  .2, 1,
                          .4, .4, .1, .2, .2, .1, .1, .1, .1, .1, .1, .1, .1};
constexpr Factors ring_simple{.1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1,
                              .1, .1, .1, .1, .1, .1, .1, .1, .7, .2, 1,  1,  1};

double factor(const Factors& factors, double bytes) {
  const double size = std::floor(std::log2(std::max(64.0, bytes) / 64));
  return factors[std::min(factors.size() - 1, static_cast<std::size_t>(size))];
}

double steps_of_rccl(CollectiveKind kind, int ranks) {
  if (is_all_reduce(kind)) return 2.0 * (ranks - 1);
  return is_scatter_or_gather(kind) ? ranks - 1 : ranks;
}

double ring_time(const NcclGroup& group, CollectiveKind kind, Protocol protocol, double bytes) {
  const auto c = static_cast<std::size_t>(column(protocol));
  const double steps = steps_of_rccl(kind, group.ranks);
  const double turns = is_all_reduce(kind) ? 2 : 1;
  const double across = group.nodes == 1 ? 0 : turns * (group.nodes - 1);
  // NCCL_NET_OVERHEAD, three times under Simple.
  const double overhead =
      group.nodes == 1 ? 0 : (group.amd ? 2.0 : 1.0) * (protocol == Protocol::simple ? 3 : 1);
  const double intra = std::max(group.pcie ? pci[c] : ring_xgmi[c], overhead);
  const double latency = base_latency[c] + (steps - across) * intra + across * ring_net_choice[c];
  const Factors& factors = protocol == Protocol::simple ? ring_simple : ring_ll;
  const double bus =
      group.bus_bw() * ring_ratio[c] * (group.nodes > 1 ? factor(factors, bytes) : 1);
  return latency + bytes * steps / group.ranks / (1e3 * bus);
}

double tree_time(const NcclGroup& group, Protocol protocol, double bytes) {
  const auto c = static_cast<std::size_t>(column(protocol));
  const double latency =
      base_latency[c] + 2 * ((group.ranks_per_node - 1) * (group.pcie ? pci[c] : tree_xgmi[c]) +
                             std::floor(std::log2(group.nodes)) * tree_net_rccl[c]);
  const Factors& factors = protocol == Protocol::simple ? tree_simple : tree_ll;
  const double bus =
      group.bus_bw() * tree_ratio[group.nodes > 2 ? 1 : 0][c] * factor(factors, bytes);
  return latency + 2 * bytes / (1e3 * bus);
}

}  // namespace

// Eight GPUs of a node: the 56 rings of rome_model_81, which lie over all links, doubled on one
// node; `nc` of init.cc for two and four, and as many for each link of another number.
void search_rings_of_rccl(NcclGroup& group, const GroupShape& shape, int least_blocks) {
  const int peers = std::max(1, group.ranks_per_node - 1);
  group.blocks = group.nodes > 1    ? std::min(56, 8 * peers)
                 : group.ranks == 2 ? 32
                 : group.ranks == 8 ? 112
                                    : std::min(112, 8 * peers);
  group.blocks = std::max(group.blocks, std::min(least_blocks, 112));
  group.channels = group.blocks;
  group.channel_bw = shape.ring_bandwidth.in_bytes_per_second() * 1e-9 / group.channels;
  group.tree_bw = group.nic_bw = group.channel_bw;
}

HopLatency rccl_hop_latency(const NcclGroup& group, Algorithm algorithm, Protocol protocol) {
  const auto c = static_cast<std::size_t>(column(protocol));
  if (algorithm == Algorithm::tree)
    return {base_latency[c], group.pcie ? pci[c] : tree_xgmi[c], tree_net_rccl[c]};
  return {base_latency[c], group.pcie ? pci[c] : ring_xgmi[c],
          group.ranks_per_node == 1 ? tree_net_rccl[c] : ring_net_rccl[c]};
}

double rccl_ring_share(Protocol protocol) {
  return ring_ratio[static_cast<std::size_t>(column(protocol))];
}

double rccl_tree_share(Protocol protocol) {
  return protocol == Protocol::simple ? 1
                                      : tree_ratio[0][static_cast<std::size_t>(column(protocol))];
}

double rccl_estimate(const NcclGroup& group, CollectiveKind kind, Algorithm algorithm,
                     Protocol protocol, double bytes) {
  constexpr double never = std::numeric_limits<double>::infinity();
  if (algorithm == Algorithm::ring) return ring_time(group, kind, protocol, bytes);
  // On one node RCCL leaves out trees under Simple.
  const bool offered = algorithm == Algorithm::tree && is_all_reduce(kind) &&
                       !(group.nodes == 1 && protocol == Protocol::simple);
  return offered ? tree_time(group, protocol, bytes) : never;
}

}  // namespace sim
