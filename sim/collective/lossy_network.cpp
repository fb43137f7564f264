// The tail of a collective on a network that loses packets. A packet lost in the middle of a stream
// is asked for by the receiver when the next one arrives: that costs rate (sends_per_packet). The
// last packet of a stream has none behind it, so the sender waits for its timeout (Mittal et al.
// 2018, "Revisiting Network Support for RDMA", SIGCOMM, section 3.1). A collective ends with the
// last of its streams: with S of them and the loss p the mean number of timeouts is
//   sum over k >= 1 of 1 - (1 - p^k)^S,
// the expectation of the maximum of S geometric numbers.
#include <algorithm>
#include <cmath>

#include "sim/collective/algorithms.hpp"

namespace sim {
namespace {

// Streams between nodes, each over a connection of its own, that a collective needs all of. A
// channel of NCCL has connections of its own (NVIDIA/nccl src/transport/net_ib.cc).
double streams_between_nodes(const FormInput& in, Algorithm algorithm, const Form& form) {
  const double nodes = in.nodes(), ranks = in.ranks(), each = in.per_node();
  switch (algorithm) {
    case Algorithm::tree:
      return (nodes - 1) * form.flows;  // a channel goes up and down the edges of one tree
    case Algorithm::in_switch:
      return (in.sharp ? nodes : nodes - 1) * form.flows;
    case Algorithm::halving_doubling:
      return ranks * std::ceil(std::log2(nodes)) * form.channels;
    case Algorithm::parameter_server:
      return 2 * (ranks - each) * in.shards;
    case Algorithm::direct:
      if (in.kind != CollectiveKind::ring_shift) return ranks * (ranks - each);
      return (in.shape.contiguous ? nodes : ranks) * form.flows;
    default:
      return nodes * form.flows;  // each channel leaves every node once
  }
}

}  // namespace

// A ring is bound by its ways between nodes where it is slower than the links within one.
void apply_transport(const Cluster& cluster, FormInput& in) {
  if (in.nodes() == 1 || !in.transport.limits()) return;
  const PathQuality way = path_of_latency(cluster, in.shape.inter_latency);
  in.packet_loss = way.loss;
  GroupShape& shape = in.shape;
  const bool between =
      shape.intra_bandwidth == Bandwidth{} || shape.ring_bandwidth < shape.intra_bandwidth;
  shape.inter_bandwidth = shape.inter_bandwidth * (1 / way.sends);
  if (way.most > Bandwidth{})
    shape.inter_bandwidth =
        std::min(shape.inter_bandwidth, way.most * static_cast<double>(shape.nics_per_node));
  if (between) shape.ring_bandwidth = shape.ring_bandwidth * (1 / way.sends);
  shape.ring_bandwidth = std::min(shape.ring_bandwidth, shape.inter_bandwidth);
}

double tail_seconds(const Transport& transport, double loss, double streams) {
  return to_seconds(transport.timeout) * expected_timeouts(loss, streams, transport.retries);
}

double tail_seconds(const FormInput& in, Algorithm algorithm, const Form& form) {
  if (in.nodes() == 1 || in.packet_loss == 0) return 0;
  return tail_seconds(in.transport, in.packet_loss, streams_between_nodes(in, algorithm, form));
}

}  // namespace sim
