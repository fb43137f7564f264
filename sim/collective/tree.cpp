// Double binary tree (Sanders, Speck & Traeff 2009), as NCCL lays it: two trees over the nodes,
// each with half of the data, a leaf of one being an inner node of the other; inside a node a chain
// that hangs on the tree's member. As in the ring, every member of a node heads one of the
// channels, so all NICs work. Reduce up, broadcast down, both pipelined over K chunks.
//   all-reduce  2 (g-1 + floor(log2 N)) alpha + T + 2 sqrt(0.65 L T), T = 2n / B (1 + (depth - 1/2)
//   / K)
// Trees: NVIDIA/nccl src/graph/trees.cc (ncclGetBtree, ncclGetDtree).
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "sim/collective/algorithms.hpp"

namespace sim {
namespace {

struct TreeNode {
  int parent = -1;
  std::array<int, 2> children{-1, -1};
  int depth = 0;  // hops to the root
};

// The alternating binary tree: odd nodes are leaves, the parent of x with lowest set bit b is
// (x ^ b) | 2b, or x ^ b where that is beyond the end.
int base_parent(int nodes, int x) {
  if (x == 0) return -1;
  const int bit = x & -x;
  const int up = (x ^ bit) | (bit << 1);
  return up < nodes ? up : x ^ bit;
}

// The second tree is the first one mirrored (even N) or shifted by one (odd N).
int to_base(int nodes, int tree, int x) {
  if (tree == 0) return x;
  return nodes % 2 == 0 ? nodes - 1 - x : (x + nodes - 1) % nodes;
}
int from_base(int nodes, int tree, int x) {
  if (tree == 0) return x;
  return nodes % 2 == 0 ? nodes - 1 - x : (x + 1) % nodes;
}

int parent_of(int nodes, int tree, int x) {
  const int up = base_parent(nodes, to_base(nodes, tree, x));
  return up < 0 ? -1 : from_base(nodes, tree, up);
}

std::vector<TreeNode> build_tree(int nodes, int tree) {
  std::vector<TreeNode> result(static_cast<std::size_t>(nodes));
  for (int x = 0; x < nodes; ++x) {
    TreeNode& node = result[static_cast<std::size_t>(x)];
    node.parent = parent_of(nodes, tree, x);
    for (int up = node.parent; up >= 0; up = parent_of(nodes, tree, up))
      ++node.depth;
    if (node.parent < 0) continue;
    auto& siblings = result[static_cast<std::size_t>(node.parent)].children;
    siblings[siblings[0] < 0 ? 0 : 1] = x;
  }
  return result;
}

// Hops from the root to the deepest node: node 2^k - 1 hangs k levels below the root's only child.
int tree_depth(int nodes) {
  return nodes == 1 ? 0 : static_cast<int>(std::bit_width(static_cast<unsigned>(nodes - 1)));
}

// Bytes that the busiest node sends to other nodes, of n: half of the data on each tree edge at the
// node, in both trees together. N = 2: a leaf here, a root there. N = 3: 1 + 2 edges. From N = 4 on
// some node has a parent and two children in one tree and a parent in the other.
double node_traffic(int nodes) {
  return nodes == 1 ? 0 : nodes == 2 ? 1 : nodes == 3 ? 1.5 : 2;
}

// Chunks of one channel's data that can be on their way at once. The low-latency protocols carry
// their flags with the data, so a warp forwards what it has read at once: 32 lanes of 8 bytes (LL)
// or 15/16 of 16 bytes (LL128). Simple waits for whole chunks: 512 KiB, halved while the pipeline
// would hold too few for its depth (NVIDIA/nccl src/enqueue.cc v2.30, chunk sizes of trees).
int chunk_count(double bytes, int channels, int depth, Protocol protocol) {
  constexpr int most_chunks = 128;
  const double per_channel = bytes / channels;
  double chunk = 512.0 * 1024;
  if (protocol == Protocol::simple) {
    while (per_channel / chunk < depth * 8 && chunk > 131072)
      chunk /= 2;
    while (per_channel / chunk < depth * 4 && chunk > 65536)
      chunk /= 2;
    while (per_channel / chunk < depth && chunk > 32768)
      chunk /= 2;
  } else {
    chunk = protocol == Protocol::ll ? 256 : 480;
  }
  return static_cast<int>(std::clamp(std::ceil(per_channel / chunk), 1.0, 1.0 * most_chunks));
}

// A chunk hands on at every hop, so K chunks of a transfer T over hops of L seconds in all take
// about (T/K)(K + depth) + K h, at best T + 2 sqrt(L' T), where L' is what the hops take for a
// chunk: 0.65 of their latency for a flag. Read off all-reduces of 2 x 8 A100 over InfiniBand
// (LL128, 512 KiB to 8 MiB), 2 and 4 x 8 H100 over InfiniBand (LL, 2 to 256 KiB), 2 x 8 A100 over
// EFA (Simple, 512 KiB to 64 MiB), and 128 GB200 in two racks (LL128, 4 MiB to 512 MiB).
constexpr double pipelining = 0.65;

int pipeline_depth(const GroupShape& shape) {
  return shape.ranks_per_node - 1 + tree_depth(shape.nodes);
}

// Every channel c (of g), in both trees: member c of a node speaks to other nodes, member c + i is
// i hops further down the node's chain.
class TreeSteps : public StepSequence {
 public:
  TreeSteps(const GroupShape& shape, Bytes bytes, int chunks)
      : size_{shape.ranks_per_node},
        depth_{pipeline_depth(shape)},
        bytes_{bytes.count()},
        chunks_{chunks},
        trees_{build_tree(shape.nodes, 0), build_tree(shape.nodes, 1)} {}

  int rounds() const override { return chunks_ + 2 * depth_ - 1; }
  int lanes() const override { return 2 * size_; }

  void sends(int rank, int round, std::vector<StepSend>& out) const override {
    out.clear();
    for_each_edge(rank, [&](int peer, bool up, int depth, std::int64_t lane) {
      const int chunk = round - start(depth, up);
      if (chunk < 0 || chunk >= chunks_) return;
      const std::int64_t lanes = std::int64_t{2} * size_;
      add_send(out, peer, part_of(bytes_, lanes * chunks_, chunk * lanes + lane));
    });
  }

  int receives(int rank, int round) const override {
    std::vector<int> from;
    for_each_edge(rank, [&](int peer, bool up, int depth, std::int64_t) {
      // The stream that comes back over the same edge.
      const int chunk = round - start(depth, !up);
      if (chunk < 0 || chunk >= chunks_) return;
      if (std::find(from.begin(), from.end(), peer) == from.end()) from.push_back(peer);
    });
    return static_cast<int>(from.size());
  }

 private:
  // First round of a stream over the edge whose lower end is `depth` hops below the root.
  int start(int depth, bool up) const { return up ? depth_ - depth : depth_ + depth - 1; }

  // visit(peer, peer is above, depth of the edge's lower end, lane) for each tree edge at a rank.
  template <class Visit>
  void for_each_edge(int rank, Visit visit) const {
    const int node = rank / size_;
    const int local = rank % size_;
    for (int tree = 0; tree < 2; ++tree) {
      const TreeNode& here = trees_[static_cast<std::size_t>(tree)][static_cast<std::size_t>(node)];
      for (int channel = 0; channel < size_; ++channel) {
        const std::int64_t lane = std::int64_t{tree} * size_ + channel;
        const int hops = (local - channel + size_) % size_;  // down the node's chain
        const int depth = here.depth + hops;
        const int base = node * size_;
        if (hops > 0) visit(base + (local + size_ - 1) % size_, true, depth, lane);
        if (hops + 1 < size_) visit(base + (local + 1) % size_, false, depth + 1, lane);
        if (hops > 0) continue;
        if (here.parent >= 0) visit(here.parent * size_ + local, true, depth, lane);
        for (const int child : here.children)
          if (child >= 0) visit(child * size_ + local, false, depth + 1, lane);
      }
    }
  }

  int size_;
  int depth_;
  std::int64_t bytes_;
  int chunks_;
  std::array<std::vector<TreeNode>, 2> trees_;
};

void require_all_reduce(CollectiveKind kind) {
  if (!is_all_reduce(kind))
    refuse(Algorithm::tree, kind, "the double binary tree reduces up and broadcasts down");
}

}  // namespace

Form tree_form(const FormInput& in) {
  require_all_reduce(in.kind);
  const double g = in.per_node();
  const HopSeconds hop = hop_seconds(in, Algorithm::tree);
  const int depth = pipeline_depth(in.shape);
  Form form;
  form.channels = blocks_used(in.group, Algorithm::tree, in.protocol, in.bytes);
  // The form of a tree counts 2n: a channel passes its part of n up each of its edges, and as much
  // down.
  form.flows = 2 * std::max(form.channels, in.per_node());
  form.latency =
      hop.base + 2 * ((g - 1) * hop.intra +
                      std::floor(std::log2(static_cast<double>(in.nodes()))) * hop.inter);
  const int chunks = chunk_count(in.bytes, form.channels, depth, in.protocol);
  form.rounds = chunks + 2 * depth - 1;
  form.traffic = 2 * in.bytes;
  // In the chain inside a node each member passes (g-1)/g of the data up and as much down.
  const double inside = g == 1 ? 0 : 2 * (g - 1) / g * in.bytes / in.intra_bw();
  const double outside = in.nodes() == 1 ? 0 : node_traffic(in.nodes()) * in.bytes / in.inter_bw();
  // Between nodes, data only goes up while the pipeline fills, and only down while it drains: half
  // of the load in 2 depth - 1 rounds, besides the K full ones. Chains inside nodes start at other
  // members for each channel, so every port has work until all is done.
  const double fill = 1 + std::max(0.0, tree_depth(in.nodes()) - 0.5) / chunks;
  form.link_time = std::max(inside, outside * fill);
  const double streamed = form.link_time / tree_share(in.group, in.protocol);
  form.transfer =
      streamed +
      (in.group.nccl ? 2 * std::sqrt(pipelining * (form.latency - hop.base) * streamed) : 0);
  // Going up, a member reads what each child wrote and its own operand; going down it reads a slot
  // and writes its result: about 5 accesses per byte of the buffer besides the slots' writes.
  form.memory_bytes = 5 * in.bytes;
  return form;
}

void add_tree_across_nodes(const Cluster& cluster, const GroupLayout& layout, LinkLoads& loads) {
  const int rails = layout.rails();
  for (int tree = 0; tree < 2; ++tree)
    for (int node = 0; node < layout.nodes(); ++node) {
      const int parent = parent_of(layout.nodes(), tree, node);
      for (int rail = 0; parent >= 0 && rail < rails; ++rail) {
        const GpuId low = layout.gpu(node, rail);
        const GpuId high = layout.gpu(parent, rail);
        loads.add(cluster.route(low, high), 0.25 / rails);
        loads.add(cluster.route(high, low), 0.25 / rails);
      }
    }
}

std::vector<Hop> tree_pattern(const Cluster& cluster, const GroupLayout& layout) {
  LinkLoads loads{cluster};
  const int size = layout.ranks_per_node();
  if (size > 1) {
    // Up the nodes' chains and down them, (g-1)/g of the data each, of the 2n.
    const double stream = 0.5 * (size - 1.0) / size;
    add_ring_within_nodes(cluster, layout, stream, RingDirection::up, loads);
    add_ring_within_nodes(cluster, layout, stream, RingDirection::down, loads);
  }
  if (layout.nodes() > 1) add_tree_across_nodes(cluster, layout, loads);
  return loads.hops();
}

std::unique_ptr<StepSequence> tree_steps(const Collective& request, const GroupShape& shape,
                                         int channels, Protocol protocol) {
  require_all_reduce(request.kind);
  const Bytes bytes = payload(request);
  return std::make_unique<TreeSteps>(
      shape, bytes,
      chunk_count(static_cast<double>(bytes.count()), channels, pipeline_depth(shape), protocol));
}

}  // namespace sim
