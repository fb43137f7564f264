// NCCL's own model of its collectives: the constants with which it predicts times and chooses.
// Source: "NVIDIA/nccl src/graph/tuning.cc v2.30" (ncclTopoTuneModel, ncclTopoGetAlgoTime), and for
// channels and speeds src/graph/search.cc and src/graph/connect.cc of the same release. Times are
// in microseconds and bandwidths in GB/s (1e9 bytes/s) here, as they are quoted there.
#pragma once

#include <algorithm>

#include "sim/collective/collective_cost.hpp"

namespace sim {

inline constexpr int protocol_count = 3;
// Columns of NCCL's tables: LL, LL128, Simple.
constexpr int column(Protocol protocol) {
  return protocol == Protocol::ll ? 0 : protocol == Protocol::ll128 ? 1 : 2;
}

// A group as NCCL sees it once its topology search is done.
struct NcclGroup {
  Generation generation = Generation::hopper;
  // False for ranks on cores of hosts: they exchange plain messages, so that a hop costs what its
  // links do, and of the members below only ranks, nodes and ranks_per_node mean something.
  bool nccl = true;
  bool rccl = false;  // AMD GPUs: channels, constants and choice are RCCL's
  bool amd = false;   // host processor
  bool pcie = false;  // neighbours of a node reach each other over PCIe, not NVLink
  int ranks = 1;
  int nodes = 1;
  int ranks_per_node = 1;
  bool generations_differ = false;  // of the members' GPUs
  int channels = 1;                 // of the ring graph
  double channel_bw = 0;            // its speed per channel
  double tree_bw = 0;               // the same of the tree graph, which has as many channels
  double nic_bw = 0;                // speed of one channel that has a NIC to itself
  int blocks = 1;                   // channels after connection: one thread block (SM) each at most
  int most_blocks = 0;              // limit of the job's settings; 0: none
  int version = latest_nccl;
  bool nvls = false;  // NVLS (one node) or NVLSTree (several) is offered
  int nvls_channels = 0;
  double nvls_bw = 0;  // per channel, within the node
  double bus_bw() const { return channels * channel_bw; }
  int span() const { return nodes == 1 ? 0 : nodes == 2 ? 1 : 2; }  // column of per-size tables
};
constexpr int limited(int blocks, int most) {
  return most > 0 ? std::min(blocks, most) : blocks;
}
NcclGroup nccl_group(const Cluster& cluster, const GroupShape& shape, CollectiveChoice choice = {});

// Channels and speeds of RCCL (rccl_tuning.cpp).
void search_rings_of_rccl(NcclGroup& group, const GroupShape& shape, int least_blocks);

// Fixed costs of one collective and of one hop, before the links' own latency.
struct HopLatency {
  double base = 0;
  double intra = 0;
  double inter = 0;
};
HopLatency hop_latency(const NcclGroup& group, Algorithm algorithm, Protocol protocol);

double sharp_latency(bool with_nvls);  // of the network, NVLS or CollNetChain, round trip

// Bus bandwidth that a protocol leaves of `bus` (physical or NCCL's own) for a ring; for a tree in
// NCCL's own estimate.
double ring_protocol_bandwidth(const NcclGroup& group, Protocol protocol, double bus);
double tree_protocol_bandwidth(const NcclGroup& group, Protocol protocol, double bus);
double nvls_efficiency(Generation generation);
double nvls_tree_channel_cap(const NcclGroup& group);  // GB/s per channel

// Measured rates that are not in NCCL's tables. Shares of the links' usable rate; sources in
// nccl_tuning.cpp.
double tree_share(const NcclGroup& group, Protocol protocol);  // by what a protocol carries
double ring_share(Generation generation);                      // of NVLink, by a ring
double message_share(Generation generation);                   // of NVLink, by messages
double block_rate(Generation generation);       // GB/s that one thread block passes on
double nvls_tree_rate(const NcclGroup& group);  // GB/s per channel, bus bandwidth

inline constexpr int peers_per_batch = 8;  // NCCL_MAX_DEV_WORK_P2P_PER_BATCH
// Channels of a message to one peer. Between nodes what its NIC needs at 14 GB/s each, halved until
// all peers go at once, 8 in a channel (NCCL 2.29 on); 2 before, from 2.20 on 1 in large groups.
// NCCL before 2.12, where a channel has a window four times as large, is not told apart.
// Within one node the 32 channels by ranks at least, doubled while a channel's part is above 16
// MiB. Source: src/graph/paths.cc ncclTopoGetNchannels, ncclTopoComputeP2pChannels of v2.28.9,
// v2.30.7; src/enqueue.cc calcP2pChannelCount.
int message_channels(const NcclGroup& group, double bytes);
// Rounds in which a member's messages to `peers` others go: 8 peers at once in each channel.
int message_rounds(const NcclGroup& group, int peers, double bytes);

// Thread blocks that NCCL starts for this many bytes (src/enqueue.cc, computeCollChunkInfo).
int blocks_used(const NcclGroup& group, Algorithm algorithm, Protocol protocol, double bytes);

// NCCL's predicted time in microseconds; infinity where it does not offer the combination.
double nccl_estimate(const NcclGroup& group, CollectiveKind kind, Algorithm algorithm,
                     Protocol protocol, double bytes);
bool ll128_enabled(const NcclGroup& group, PathKind intra);

// The same for RCCL, which keeps NCCL's model and has constants of its own.
HopLatency rccl_hop_latency(const NcclGroup& group, Algorithm algorithm, Protocol protocol);
double rccl_ring_share(Protocol protocol);  // of the bus bandwidth, what a protocol leaves
double rccl_tree_share(Protocol protocol);
double rccl_estimate(const NcclGroup& group, CollectiveKind kind, Algorithm algorithm,
                     Protocol protocol, double bytes);
// Row of a generation in tables by NCCL's Volta, Ampere, Hopper and Blackwell. REQUIRES: not cdna,
// not cpu.
std::size_t nccl_row(Generation generation);

}  // namespace sim
