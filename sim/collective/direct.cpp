// Pairwise messages: all-to-all as NCCL's send/receive kernels do it, and the transfer between two
// devices.
//   all-to-all  alpha per round of peers + max( (g-1)/p n / B_in, (p-g)/p n / (B_out/g) )
// Peers inside the node and beyond are served at once by different channels. A member has several
// of its p-1 messages in flight: each channel takes 8 peers at once
// (NCCL_MAX_DEV_WORK_P2P_PER_BATCH in src/include/device.h), so the latency counts rounds of them.
#include <algorithm>
#include <cmath>

#include "sim/collective/algorithms.hpp"

namespace sim {
namespace {

// Thread blocks of a message: a channel more for each 32 KiB, the work below which NCCL drops a
// block of its Simple kernels (512 threads of 64 bytes), up to 4 channels for one peer.
int message_blocks(double bytes) {
  return static_cast<int>(std::clamp(bytes / (32.0 * 1024), 1.0, 4.0));
}

// A channel has 8 chunks of 128 KiB on the way between nodes (NCCL_STEPS, NCCL_P2P_NET_CHUNKSIZE),
// and a chunk's place is free again only after proxies, NICs and copies at both ends. Read off ring
// shifts over 400 Gb/s: 14.5 and 15.2 GB/s over 1 channel (128 and 256 B200, 80 H100), 26.1 and
// 24.9 over 2 (64 B200, 10 H100), 42.5 and 44.2 over 4 (16 and 32 B200).
constexpr double window_bytes = 8 * 128 * 1024.0;
constexpr double window_seconds = 63.2e-6;
constexpr double joint_rate = 119e9;

// All-to-all: what its messages reach of the NICs' payload rate together (44.8 and 46.1 of 48.9
// GB/s over ten nodes of one and eight), and the hand-over of its rounds of peers, as in
// in_switch.cpp: eight H100, 32 MiB to 16 GiB.
constexpr double network_share = 0.93;
constexpr double peer_handover = 2.2e-6;

// Bytes/s of a message over links of a node that give it `link`. Ranks of several nodes have the
// channels that they have between nodes.
double near_rate(const NcclGroup& group, double bytes, double link) {
  if (!group.nccl || group.pcie) return link;
  return std::min(link * message_share(group.generation),
                  message_channels(group, bytes) * block_rate(group.generation) * 1e9);
}

// The same between nodes.
double far_rate(const NcclGroup& group, double bytes, double link) {
  if (!group.nccl) return link;
  const double windows = window_bytes * message_channels(group, bytes);
  return std::min(network_share * link, 1 / (window_seconds / windows + 1 / joint_rate));
}

class DirectSteps : public StepSequence {
 public:
  DirectSteps(int ranks, Bytes bytes) : ranks_{ranks}, bytes_{bytes.count()} {}
  int rounds() const override { return 1; }
  int lanes() const override { return ranks_ - 1; }
  void sends(int rank, int, std::vector<StepSend>& out) const override {
    out.clear();
    for (int step = 1; step < ranks_; ++step) {
      const int to = (rank + step) % ranks_;
      out.push_back({static_cast<std::uint32_t>(to), Bytes{part_of(bytes_, ranks_, to)}});
    }
  }
  int receives(int, int) const override { return ranks_ - 1; }

 private:
  int ranks_;
  std::int64_t bytes_;
};

class ShiftSteps : public StepSequence {
 public:
  ShiftSteps(int ranks, Bytes bytes) : ranks_{ranks}, bytes_{bytes} {}
  int rounds() const override { return 1; }
  void sends(int rank, int, std::vector<StepSend>& out) const override {
    out.assign(1, {static_cast<std::uint32_t>((rank + 1) % ranks_), bytes_});
  }
  int receives(int, int) const override { return 1; }

 private:
  int ranks_;
  Bytes bytes_;
};

// Ring shift: a message per member, like a transfer. A node is left by one member where its members
// follow each other in the group, else by all, each over its share of the node's NICs:
//   alpha + max( n / B_in, n / (B_out / NICs) ) or n / (B_out / g)
// each at what a message gets of it (near_rate, far_rate).
Form shift_form(const FormInput& in) {
  const HopSeconds hop = hop_seconds(in, Algorithm::direct);
  const bool inside = in.nodes() == 1 || (in.per_node() > 1 && in.shape.contiguous);
  const bool outside = in.nodes() > 1;
  Form form;
  form.latency = hop.base + std::max(inside ? hop.intra : 0.0, outside ? hop.inter : 0.0);
  if (inside) {
    form.link_time = in.bytes / in.intra_bw();
    form.transfer = in.bytes / near_rate(in.group, in.bytes, in.intra_bw());
  }
  if (outside) {
    const int nics = std::max(1, in.shape.nics_per_node);
    const int shares = in.shape.contiguous ? nics : std::max(nics, in.per_node());
    const double link = in.inter_bw() / shares;
    form.link_time = std::max(form.link_time, in.bytes / link);
    form.transfer = std::max(form.transfer, in.bytes / far_rate(in.group, in.bytes, link));
  }
  form.traffic = in.bytes;
  form.channels = message_blocks(in.bytes);
  form.flows = in.group.nccl ? message_channels(in.group, in.bytes) : 1;
  form.memory_bytes = 4 * in.bytes;  // as in direct_form
  return form;
}

// A kernel's blocks serve a batch of peers each at once; every peer has its channels.
int flows_at_once(const FormInput& in) {
  const int peers = in.ranks() - 1;
  if (!in.group.nccl) return peers;
  const int channels = message_channels(in.group, in.bytes / in.ranks());
  return std::min(peers * channels, peers_per_batch * in.group.blocks);
}

void require_all_to_all(CollectiveKind kind) {
  if (kind != CollectiveKind::all_to_all)
    refuse(Algorithm::direct, kind, "pairwise messages make an all-to-all");
}

}  // namespace

Form direct_form(const FormInput& in) {
  if (in.kind == CollectiveKind::ring_shift) return shift_form(in);
  require_all_to_all(in.kind);
  const double p = in.ranks();
  const double g = in.per_node();
  const HopSeconds hop = hop_seconds(in, Algorithm::direct);
  Form form;
  const auto rounds = [&](double peers) {
    return message_rounds(in.group, static_cast<int>(peers), in.bytes / p);
  };
  form.latency = hop.base + std::max(rounds(g - 1) * hop.intra, rounds(p - g) * hop.inter);
  const double inside = g > 1 ? (g - 1) / p * in.bytes / in.intra_bw() : 0;
  const double outside = in.nodes() > 1 ? (p - g) / p * in.bytes * g / in.inter_bw() : 0;
  form.link_time = std::max(inside, outside);
  form.transfer = form.link_time;
  if (in.group.nccl) {
    const double share = in.group.pcie ? 1 : message_share(in.group.generation);
    double streamed = std::max(inside / share, outside / network_share);
    if (in.group.most_blocks > 0)
      streamed = std::max(streamed, (p - 1) / p * in.bytes /
                                        (in.group.blocks * block_rate(in.group.generation) * 1e9));
    form.transfer = streamed + 2 * std::sqrt(peer_handover * streamed);
  }
  form.traffic = (p - 1) / p * in.bytes;
  form.rounds = 1;
  form.channels = std::clamp(message_blocks(in.bytes / p) * (in.ranks() - 1), 1, in.group.blocks);
  form.flows = flows_at_once(in);
  // Per byte: read by the sender, written into the receiver's slot, read there, written.
  form.memory_bytes = 4 * form.traffic;
  return form;
}

std::vector<Hop> direct_pattern(const Cluster& cluster, const GroupLayout& layout) {
  LinkLoads loads{cluster};
  const double each = 1 / (layout.ranks() - 1.0);
  for (int node = 0; node < layout.nodes(); ++node)
    for (int local = 0; local < layout.members_of(node); ++local)
      for (int other = 0; other < layout.nodes(); ++other)
        for (int peer = 0; peer < layout.members_of(other); ++peer)
          if (node != other || local != peer)
            loads.add(cluster.route(layout.gpu(node, local), layout.gpu(other, peer)), each);
  return loads.hops();
}

std::vector<Hop> shift_pattern(const Cluster& cluster, std::span<const GpuId> members) {
  LinkLoads loads{cluster};
  for (std::size_t i = 0; i < members.size(); ++i)
    loads.add(cluster.route(members[i], members[(i + 1) % members.size()]), 1);
  return loads.hops();
}

std::unique_ptr<StepSequence> direct_steps(const Collective& request, const GroupShape& shape) {
  if (request.kind == CollectiveKind::ring_shift)
    return std::make_unique<ShiftSteps>(shape.ranks, payload(request));
  require_all_to_all(request.kind);
  return std::make_unique<DirectSteps>(shape.ranks, payload(request));
}

namespace {

// Below the curve its first time holds, above it the rate of its last point. The links take no less
// than before: what is left of the measured time is latency.
void replace_transfer(CollectiveCost& cost, const MeasuredCurve& curve, double bytes, double rate) {
  const auto most = static_cast<double>(curve.points.back().size.count());
  const double seconds = interpolate(curve, bytes) * std::max(1.0, bytes / most);
  const double latency = std::min(to_seconds(cost.latency), seconds);
  const double moving = std::max(seconds - latency, std::min(bytes / rate, seconds));
  cost.measured = true;
  cost.latency = duration_from_seconds(seconds - moving);
  cost.transfer = duration_from_seconds(moving);
  cost.link_time = duration_from_seconds(std::min(bytes / rate, moving));
  cost.rate = Bandwidth::bytes_per_second(std::floor(std::min(rate, bytes / moving)));
}

}  // namespace

CollectiveCost transfer_cost(const Cluster& machine, const Route& route, Bytes bytes,
                             int most_blocks) {
  const Cluster cluster = machine.of_pool(route.pool);
  CollectiveCost cost{.algorithm = Algorithm::direct};
  cost.rounds = 1;
  if (route.hops.empty() || bytes.count() == 0) return cost;
  const NetworkTraits& network = cluster.network();
  const std::vector<Hop> wire = transfer_pattern(cluster, route);
  const PathQuality quality = path_quality(cluster, route);
  double link = rate_limit(cluster, wire).in_bytes_per_second();
  // NCCL knows neither losses nor windows.
  const double line = network.nic_rate.in_bytes_per_second();
  const double nic_bw = (quality.loss > 0 ? std::max(link, line) : link) * 1e-9;
  if (quality.most > Bandwidth{}) link = std::min(link, quality.most.in_bytes_per_second());
  // A receive waits for the kernel's start-up and one hop of the Simple protocol, as in a ring.
  const NcclGroup pair{.generation = cluster.device().generation,
                       .nccl = cluster.device().generation != Generation::cpu,
                       .rccl = is_cdna(cluster.device().generation),
                       .pcie = route.kind == PathKind::pcie || route.kind == PathKind::socket,
                       .ranks = 2,
                       .nodes = route.kind == PathKind::network ? 2 : 1,
                       .ranks_per_node = route.kind == PathKind::network ? 1 : 2,
                       .nic_bw = nic_bw,
                       .blocks = limited(8, most_blocks),
                       .most_blocks = most_blocks,
                       .version = network.nccl};
  const FormInput in{.shape = {.intra_latency = route.latency, .inter_latency = route.latency},
                     .group = pair,
                     .network_overhead = to_seconds(network.network_overhead),
                     .simple_overhead = to_seconds(network.simple_overhead)};
  const HopSeconds hop = hop_seconds(in, Algorithm::direct);
  const double size = static_cast<double>(bytes.count());
  const bool outside = route.kind == PathKind::network;
  const double rate = outside ? far_rate(pair, size, link) : near_rate(pair, size, link);
  cost.flows = pair.nccl ? message_channels(pair, size) : 1;
  const double tail = tail_seconds(transport_of(cluster), quality.loss, cost.flows);
  cost.latency = duration_from_seconds(hop.base + (outside ? hop.inter : hop.intra) + tail);
  cost.transfer = duration_from_seconds(size / rate);
  cost.link_time = duration_from_seconds(size / link);
  cost.rate = Bandwidth::bytes_per_second(std::floor(rate));
  cost.channels = message_blocks(size);
  cost.memory =
      Bandwidth::bytes_per_second(2 * rate);  // a read, and on the far side a write, twice
  if (const MeasuredCurve* curve =
          find_curve(cluster, "send_receive", 2, outside ? 2 : 1, Algorithm::automatic))
    replace_transfer(cost, *curve, size, link);
  return cost;
}

std::vector<Hop> transfer_pattern(const Cluster& machine, const Route& route) {
  const Cluster cluster = machine.of_pool(route.pool);
  return LinkLoads{cluster}.of_route(route);
}

}  // namespace sim
