// Reduction in the switches. Inside a node NVLS (NVLink SHARP: Klenk et al. 2020, NCCL 2.17): each
// member loads its part of the buffer once, reduced by the switch on the way (multimem.ld_reduce),
// and stores it once, multiplied by the switch (multimem.st). So for an all-reduce each port
// carries, in each direction, n for the others' loads or the switch's stores, and n/g of its own
// part:
//   inside   n (1 + 1/g) / (B_in * efficiency)
// Across nodes SHARP (Graham et al. 2016) reduces in the fabric: n / B_out per node and direction,
// about 2 alpha. Without it NCCL runs a double binary tree over the nodes (NVLSTree), whose node
// traffic is 2n (n for two nodes).
#include <algorithm>
#include <bit>
#include <cmath>

#include "sim/collective/algorithms.hpp"

namespace sim {
namespace {

void require_supported(const FormInput& in) {
  if (is_rooted(in.kind) || in.kind == CollectiveKind::all_to_all)
    refuse(Algorithm::in_switch, in.kind, "switches reduce and multiply for all members only");
  if (in.per_node() > 1 && (!in.nvls || nvls_efficiency(in.group.generation) == 0))
    refuse(Algorithm::in_switch, in.kind,
           "the cluster's nodes have no NVLink SHARP (network traits: nvls)");
  if (in.per_node() > 1 && in.group.pcie)
    refuse(Algorithm::in_switch, in.kind, "members of one node are not all on one NVSwitch");
  if (in.protocol != Protocol::simple)
    refuse(Algorithm::in_switch, in.kind, "switches know the simple protocol only");
  if (!in.shape.uniform)
    refuse(Algorithm::in_switch, in.kind, "it needs the same number of members on every node");
  if (in.nodes() == 1 || in.sharp) return;
  if (in.per_node() == 1)
    refuse(Algorithm::in_switch, in.kind, "the fabric does not reduce (network traits: sharp)");
  if (is_scatter_or_gather(in.kind))
    refuse(Algorithm::in_switch, in.kind,
           "across nodes it needs a fabric that reduces (network traits: sharp)");
}

// The work goes through the stages copy in, reduce, copy out (and the tree's levels) in chunks.
// Each chunk costs a hand-over h, and too few chunks leave stages idle: K chunks of a transfer T
// take (T/K + h)(K + 1) ~ T + T/K + hK, at best T + 2 sqrt(h T), and NCCL shrinks its chunks with
// the message to stay near that (src/enqueue.cc). h is fitted once, on the all-reduce curve of one
// H100 node (ALGORITHMS.md); two and four nodes follow. On Blackwell that of one B200 node; two
// follow.
constexpr double chunk_handover = 6e-6;
constexpr double blackwell_handover = 4.5e-6;

double tree_levels(const FormInput& in) {
  if (in.nodes() == 1) return 0;
  return in.sharp ? 1 : std::floor(std::log2(static_cast<double>(in.nodes())));
}

double sharp_seconds(const FormInput& in, const HopSeconds& hop) {
  if (in.nodes() == 1) return 0;
  const double nccl = hop_latency(in.group, Algorithm::in_switch, Protocol::simple).inter;
  return hop.inter + 1e-6 * (sharp_latency(in.per_node() > 1) - nccl);
}

// Bytes through a member's port per direction, of n.
double port_traffic(CollectiveKind kind, double g) {
  if (g == 1) return 0;
  // Reduce-scatter: n out to serve the others' loads. All-gather: n in from their stores.
  return is_all_reduce(kind) ? 1 + 1 / g : 1;
}

// Bytes out of a node, of n: the tree's (tree.cpp) or the fabric's.
double node_traffic(const FormInput& in) {
  if (in.nodes() == 1) return 0;
  if (in.sharp) return is_all_reduce(in.kind) ? 1 : (in.nodes() - 1.0) / in.nodes();
  return in.nodes() == 2 ? 1 : in.nodes() == 3 ? 1.5 : 2;
}

}  // namespace

Form in_switch_form(const FormInput& in) {
  require_supported(in);
  const double g = in.per_node();
  const HopSeconds hop = hop_seconds(in, Algorithm::in_switch);
  Form form;
  // Up and down the tree, or to the fabric's root and back: one figure of NCCL's for the round
  // trip.
  const double across = in.sharp ? sharp_seconds(in, hop) : 2 * tree_levels(in) * hop.inter;
  form.latency = (g > 1 ? hop.base + hop.intra : 0) + across;
  form.channels = blocks_used(in.group, Algorithm::in_switch, in.protocol, in.bytes);
  form.traffic = 2 * in.bytes;
  // As in a tree, whose members are now the nodes' heads: each channel has a tree for each of them
  // (src/transport/nvls.cc, connect.cc of NCCL).
  form.flows = 2 * form.channels * (in.nodes() > 1 ? in.per_node() : 1);
  const double inside = g == 1 ? 0 : port_traffic(in.kind, g) * in.bytes / in.intra_bw();
  const double outside = in.nodes() == 1 ? 0 : node_traffic(in) * in.bytes / in.inter_bw();
  form.link_time = std::max(inside, outside);
  // The share of its ports that the switch reaches (nvlsEfficiency), and the limit per channel
  // across nodes, a bus bandwidth: 2(p-1)/p n over time.
  const double efficiency = g == 1 ? 1 : nvls_efficiency(in.group.generation);
  double transfer = std::max(inside / efficiency, outside);
  if (in.nodes() > 1 && g > 1 && !in.sharp) {
    const double cap = 1e9 * in.group.nvls_channels * nvls_tree_rate(in.group);
    transfer = std::max(transfer, 2.0 * (in.ranks() - 1) / in.ranks() * in.bytes / cap);
  }
  const double handover =
      in.group.generation == Generation::blackwell ? blackwell_handover : chunk_handover;
  form.transfer = transfer + 2 * std::sqrt(handover * transfer);
  // The member's buffer is copied to and from the multicast buffer (4n, unless registered), served
  // to the switch (n) and written by it (n).
  form.memory_bytes = (is_all_reduce(in.kind) ? 6 : 3) * in.bytes;
  return form;
}

std::vector<Hop> in_switch_pattern(const Cluster& cluster, const GroupLayout& layout) {
  const double g = layout.ranks_per_node();
  LinkLoads loads{cluster};
  // The ports of each member carry what a ring's neighbours would, in the amount of the formula.
  if (g > 1)
    add_ring_within_nodes(cluster, layout, 0.5 * port_traffic(CollectiveKind::all_reduce, g),
                          RingDirection::up, loads);
  if (layout.nodes() == 1) return loads.hops();
  if (cluster.network().sharp) {
    // Every NIC sends its part to the fabric's root and gets the result; the neighbour's route
    // shows which links lead there.
    for (int node = 0; node < layout.nodes(); ++node)
      for (int rail = 0; rail < layout.rails(); ++rail)
        loads.add(
            cluster.route(layout.gpu(node, rail), layout.gpu((node + 1) % layout.nodes(), rail)),
            0.5 / layout.rails());
    return loads.hops();
  }
  add_tree_across_nodes(cluster, layout, loads);
  return loads.hops();
}

}  // namespace sim
