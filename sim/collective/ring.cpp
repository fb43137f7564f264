// Ring (Patarasuk & Yuan 2009): every member sends to its successor only.
//   all-reduce       2(p-1) steps of n/p:  2(p-1) alpha + 2(p-1)/p n / B
//   reduce-scatter, all-gather  half of it: (p-1) alpha + (p-1)/p n / B
//   broadcast, reduce  a chain cut into K chunks: (p-1) alpha + n / B (1 + (p-2)/K)
// B is the ring's bus bandwidth (GroupShape::ring_bandwidth), less where the protocol takes some.
#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/collective/algorithms.hpp"

namespace sim {
namespace {

// Chunks of a chain: a choice of this model, sixteen for each hop, so that filling the pipeline
// costs a sixteenth of the transfer, but none below what a warp forwards at once (32 lanes of 8
// bytes).
int chain_chunks(double bytes, int ranks, int channels) {
  constexpr double least_bytes = 256;
  const double most = 16.0 * std::max(1, ranks - 2);
  return static_cast<int>(std::clamp(std::ceil(bytes / channels / least_bytes), 1.0, most));
}

// The rate of a ring over nodes of a mesh of xGMI within a node, where all channels but one of g
// pass a pair of neighbours: two nodes of eight MI300X reach 357 GB/s, one 316.
double share_within(const FormInput& in) {
  const double g = in.per_node();
  if (g < 2) return std::numeric_limits<double>::infinity();
  const double links = in.intra_bw() * 1e-9 * ring_share(in.group.generation);
  return in.shape.uniform ? links * g / (g - 1) : links;
}

// The share of the ring's bandwidth that is left: by the protocol, by NVLink for a ring, and by the
// thread blocks.
double protocol_share(const FormInput& in, int blocks) {
  if (!in.group.nccl) return 1;
  const double ring = in.ring_bw() * 1e-9;
  double bus = ring_protocol_bandwidth(in.group, in.protocol, ring);
  if (in.group.pcie || in.protocol == Protocol::ll) return bus / ring;
  if (in.nodes() == 1) bus = std::min(bus, ring * ring_share(in.group.generation));
  if (in.nodes() > 1 && in.group.rccl) bus = std::min(bus, share_within(in));
  return std::min(bus, blocks * block_rate(in.group.generation)) / ring;
}

int rails_of(const GroupShape& shape) {
  return shape.uniform && shape.nodes > 1 ? shape.ranks_per_node : 1;
}

// Member sequence of the channels of a ring: GroupLayout's description, by index in the group.
struct RingOrder {
  explicit RingOrder(const GroupShape& shape)
      : ranks{shape.ranks},
        nodes{shape.nodes},
        size{shape.ranks_per_node},
        rails{rails_of(shape)} {}

  // Position of a member in the ring of a channel.
  int position(int channel, int rank) const {
    if (rails == 1) return rank;
    const int node = rank / size;
    const int local = rank % size;
    const int up = (local - channel + size) % size;
    const int down = (channel - 1 - local + 2 * size) % size;
    return node * size + (node % 2 == 0 ? up : down);
  }
  int member(int channel, int at) const {
    if (rails == 1) return at;
    const int node = at / size;
    const int step = at % size;
    const int up = (channel + step) % size;
    const int down = (channel - 1 - step + 2 * size) % size;
    return node * size + (node % 2 == 0 ? up : down);
  }
  int next(int channel, int rank) const {
    const int at = position(channel, rank) + 1;
    return member(channel, at == ranks ? 0 : at);
  }
  int previous(int channel, int rank) const {
    const int at = position(channel, rank);
    return member(channel, at == 0 ? ranks - 1 : at - 1);
  }

  int ranks;
  int nodes;
  int size;
  int rails;
};

class RingSteps : public StepSequence {
 public:
  RingSteps(const GroupShape& shape, CollectiveKind kind, Bytes bytes)
      : order_{shape},
        bytes_{bytes.count()},
        rounds_{(is_all_reduce(kind) ? 2 : 1) * (shape.ranks - 1)} {}
  int rounds() const override { return rounds_; }
  int lanes() const override { return order_.rails; }
  void sends(int rank, int round, std::vector<StepSend>& out) const override {
    out.clear();
    const int p = order_.ranks;
    for (int channel = 0; channel < order_.rails; ++channel) {
      const int at = order_.position(channel, rank);
      const int chunk = ((at - round) % p + p) % p;
      const std::int64_t size = part_of(bytes_, std::int64_t{p} * order_.rails,
                                        std::int64_t{chunk} * order_.rails + channel);
      add_send(out, order_.next(channel, rank), size);
    }
  }
  // All channels but one come from the neighbour in the node, one from the rail's previous node.
  int receives(int, int) const override { return order_.rails == 1 ? 1 : 2; }

 private:
  RingOrder order_;
  std::int64_t bytes_;
  int rounds_;
};

// A chain from member 0 (broadcast) or to it (reduce: the same, mirrored in time), pipelined.
class ChainSteps : public StepSequence {
 public:
  ChainSteps(const GroupShape& shape, bool to_root, Bytes bytes, int chunks)
      : order_{shape}, to_root_{to_root}, bytes_{bytes.count()}, chunks_{chunks} {}
  int rounds() const override { return chunks_ + order_.ranks - 2; }
  int lanes() const override { return order_.rails; }
  void sends(int rank, int round, std::vector<StepSend>& out) const override {
    out.clear();
    for (int channel = 0; channel < order_.rails; ++channel) {
      const int depth = depth_of(channel, rank);
      const int chunk = to_root_ ? round - (order_.ranks - 1 - depth) : round - depth;
      const bool last = to_root_ ? depth == 0 : depth == order_.ranks - 1;
      if (last || chunk < 0 || chunk >= chunks_) continue;
      add_send(out, to_root_ ? order_.previous(channel, rank) : order_.next(channel, rank),
               part_of(bytes_, std::int64_t{chunks_} * order_.rails,
                       std::int64_t{chunk} * order_.rails + channel));
    }
  }
  int receives(int rank, int round) const override {
    int neighbour = 0;
    int other = 0;
    for (int channel = 0; channel < order_.rails; ++channel) {
      const int depth = depth_of(channel, rank);
      const int sender = to_root_ ? depth + 1 : depth - 1;
      const int chunk = to_root_ ? round - (order_.ranks - 1 - sender) : round - sender;
      if (sender < 0 || sender >= order_.ranks || chunk < 0 || chunk >= chunks_) continue;
      const int from = to_root_ ? order_.next(channel, rank) : order_.previous(channel, rank);
      (from / order_.size == rank / order_.size ? neighbour : other) = 1;
    }
    return neighbour + other;
  }

 private:
  int depth_of(int channel, int rank) const {
    const int root = order_.position(channel, 0);
    return (order_.position(channel, rank) - root + order_.ranks) % order_.ranks;
  }
  RingOrder order_;
  bool to_root_;
  std::int64_t bytes_;
  int chunks_;
};

}  // namespace

void add_send(std::vector<StepSend>& out, int to, std::int64_t bytes) {
  const auto peer = static_cast<std::uint32_t>(to);
  for (StepSend& send : out) {
    if (send.to != peer) continue;
    send.bytes += Bytes{bytes};
    ++send.lanes;
    return;
  }
  out.push_back({peer, Bytes{bytes}});
}

Form ring_form(const FormInput& in) {
  const double p = in.ranks();
  const HopSeconds hop = hop_seconds(in, Algorithm::ring);
  Form form;
  form.channels = blocks_used(in.group, Algorithm::ring, in.protocol, in.bytes);
  form.flows = std::max(form.channels, rails_of(in.shape));  // a channel is one flow all around
  const double turns = is_all_reduce(in.kind) ? 2 : 1;
  const double steps = turns * (p - 1);
  // A chunk crosses between nodes N times per turn where it starts beside a crossing: the last one
  // to arrive (NCCL 2.19 counts so: nInterSteps = 2 nNodes). With one member per node a turn is N-1
  // steps, all of them crossings. In a rooted chain whose channel enters the root's node beside the
  // root, the data comes back to that node in the end.
  const bool returns = is_rooted(in.kind) ? rails_of(in.shape) > 1 : in.per_node() > 1;
  const double crossings =
      in.nodes() == 1 ? 0 : std::min(steps, turns * (in.nodes() - (returns ? 0 : 1)));
  form.latency = hop.base + (steps - crossings) * hop.intra + crossings * hop.inter;
  if (is_rooted(in.kind)) {
    const int chunks = chain_chunks(in.bytes, in.ranks(), form.channels);
    form.traffic = in.bytes;
    form.link_time = in.bytes / in.ring_bw() * (1 + (p - 2) / chunks);
    form.rounds = chunks + in.ranks() - 2;
    // Each member receives into a slot, reads it to forward, and writes its own copy (broadcast) or
    // reads its own part (reduce).
    form.memory_bytes = 3 * in.bytes;
  } else {
    form.traffic = turns * (p - 1) / p * in.bytes;
    form.link_time = form.traffic / in.ring_bw();
    form.rounds = static_cast<int>(steps);
    // Per byte that comes in while reducing: the predecessor's write into a slot, its read, the
    // read of the own operand. While gathering NCCL copies directly between output buffers where
    // peers can reach them: one write and the read that forwards it.
    const double per_byte = is_all_reduce(in.kind)                      ? 2.5
                            : in.kind == CollectiveKind::reduce_scatter ? 3
                                                                        : 2;
    form.memory_bytes = per_byte * form.traffic;
  }
  form.transfer = form.link_time / protocol_share(in, form.channels);
  return form;
}

std::vector<Hop> ring_pattern(const Cluster& cluster, const GroupLayout& layout) {
  RingLoads ring = ring_loads(cluster, layout, true);
  return merged(ring.within.hops(), ring.across.hops());
}

std::unique_ptr<StepSequence> ring_steps(const Collective& request, const GroupShape& shape,
                                         int channels) {
  if (is_rooted(request.kind))
    return std::make_unique<ChainSteps>(
        shape, request.kind == CollectiveKind::reduce, payload(request),
        chain_chunks(static_cast<double>(payload(request).count()), shape.ranks, channels));
  return std::make_unique<RingSteps>(shape, request.kind, payload(request));
}

}  // namespace sim
