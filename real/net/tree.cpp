// Double binary tree (Sanders, Speck & Traeff 2009), as NCCL lays it: two trees over the nodes,
// each with half of the data, a leaf of one being an inner node of the other; inside a node a chain
// hangs on the tree's member, and every member heads one chain. Reduce up, broadcast down, in
// chunks.
//   bytes sent by all ranks together: 2 (p-1) n; by one, in flat trees: n/2 per edge of a tree at
//   it
// Trees: NVIDIA/nccl src/graph/trees.cc (ncclGetBtree, ncclGetDtree).
#include <algorithm>
#include <bit>

#include "real/net/lanes.hpp"

namespace real {
namespace {

// The parent of x with lowest set bit b is (x ^ b) | 2b, or x ^ b where that is beyond the end.
int base_parent(int nodes, int x) {
  if (x == 0) return -1;
  const int bit = x & -x;
  const int up = (x ^ bit) | (bit << 1);
  return up < nodes ? up : x ^ bit;
}

// The second tree is the first one mirrored (even N) or shifted by one (odd N).
int to_base(int nodes, int x) {
  return nodes % 2 == 0 ? nodes - 1 - x : (x + nodes - 1) % nodes;
}
int from_base(int nodes, int x) {
  return nodes % 2 == 0 ? nodes - 1 - x : (x + 1) % nodes;
}

TreePlace second_tree_place(int nodes, int node) {
  TreePlace place = binary_tree_place(nodes, to_base(nodes, node));
  if (place.parent >= 0) place.parent = from_base(nodes, place.parent);
  for (int& child : place.children)
    child = from_base(nodes, child);
  return place;
}

// The rank's place in the tree over nodes whose member `head` of each node speaks to other nodes,
// member head + i being i hops further down the node's chain.
TreePlace with_chain(const TreePlace& over_nodes, int node, int local, int head, int per_node) {
  const int hops = (local - head + per_node) % per_node;
  const int base = node * per_node;
  TreePlace place{.depth = over_nodes.depth + hops};
  if (hops > 0)
    place.parent = base + (local + per_node - 1) % per_node;
  else if (over_nodes.parent >= 0)
    place.parent = over_nodes.parent * per_node + local;
  if (hops == 0)
    for (const int child : over_nodes.children)
      place.children.push_back(child * per_node + local);
  if (hops + 1 < per_node) place.children.push_back(base + (local + 1) % per_node);
  return place;
}

}  // namespace

TreePlace binary_tree_place(int nodes, int node) {
  TreePlace place{.parent = base_parent(nodes, node)};
  for (int up = place.parent; up >= 0; up = base_parent(nodes, up))
    ++place.depth;
  for (int other = 0; other < nodes; ++other)
    if (base_parent(nodes, other) == node) place.children.push_back(other);
  return place;
}

int binary_tree_height(int nodes) {
  // Node 2^k - 1 hangs k levels below the root's only child.
  return nodes == 1 ? 0 : static_cast<int>(std::bit_width(static_cast<unsigned>(nodes - 1)));
}

std::unique_ptr<Schedule> tree_all_reduce(const Exchange& exchange) {
  const int per_node = exchange.members_per_node;
  const int nodes = exchange.ranks() / per_node;
  const int node = exchange.position / per_node;
  const int local = exchange.position % per_node;
  LaneSchedule::Setup setup{.exchange = exchange,
                            .height = per_node - 1 + binary_tree_height(nodes),
                            .up = true,
                            .down = true,
                            .sums = exchange.buffer.data};
  for (const TreePlace& tree : {binary_tree_place(nodes, node), second_tree_place(nodes, node)})
    for (int head = 0; head < per_node; ++head)
      setup.lanes.push_back(with_chain(tree, node, local, head, per_node));
  return std::make_unique<LaneSchedule>(std::move(setup));
}

LaneSchedule::LaneSchedule(Setup setup) : setup_{std::move(setup)} {
  const Elements& all = setup_.exchange.buffer;
  const auto lanes = static_cast<std::int64_t>(setup_.lanes.size());
  // Chunks of a slice at most: an inner rank meets two messages of one partner in a round.
  const std::int64_t per_chunk = static_cast<std::int64_t>(slice_bytes) / all.size * lanes;
  chunks_ = static_cast<int>(std::max<std::int64_t>(1, (all.count + per_chunk - 1) / per_chunk));
  if (!setup_.up || setup_.sums != nullptr || setup_.lanes[0].children.empty()) return;
  scratch_stride_ = chunk(0, 0).count * all.size;
  scratch_ = std::make_unique_for_overwrite<std::byte[]>(
      static_cast<std::size_t>(2 * lanes * scratch_stride_));
}

int LaneSchedule::rounds() const {
  if (setup_.height == 0) return 0;
  return chunks_ + (setup_.up ? setup_.height : 0) + (setup_.down ? setup_.height : 0) - 1;
}

void LaneSchedule::fill(int round, Round& out) {
  for (std::size_t lane = 0; lane < setup_.lanes.size(); ++lane) {
    if (setup_.up) fill_up(lane, round, out);
    if (setup_.down) fill_down(lane, round, out);
  }
}

Elements LaneSchedule::chunk(std::size_t lane, int index) const {
  const auto lanes = static_cast<std::int64_t>(setup_.lanes.size());
  return setup_.exchange.buffer.part(lanes * chunks_,
                                     index * lanes + static_cast<std::int64_t>(lane));
}

// Without a place of their own, sums of two chunks alternate: one is sent while the next is made.
std::byte* LaneSchedule::sum_of(std::size_t lane, int index) const {
  const Elements part = chunk(lane, index);
  if (setup_.sums != nullptr) return setup_.sums + (part.data - setup_.exchange.buffer.data);
  if (scratch_ == nullptr) return part.data;  // a leaf: its sum is its own
  return scratch_.get() + (2 * static_cast<std::int64_t>(lane) + index % 2) * scratch_stride_;
}

void LaneSchedule::fill_up(std::size_t lane, int round, Round& out) const {
  const TreePlace& place = setup_.lanes[lane];
  const int sent = round - up_start(place.depth);
  if (place.parent >= 0 && sent >= 0 && sent < chunks_)
    out.send(setup_.exchange.member(place.parent),
             {sum_of(lane, sent), chunk(lane, sent).bytes().size()});
  const int summed = round - up_start(place.depth + 1);
  if (summed < 0 || summed >= chunks_) return;
  const Elements own = chunk(lane, summed);
  const std::span<std::byte> sum{sum_of(lane, summed), own.bytes().size()};
  const std::byte* with = own.data;
  for (const int child : place.children) {
    out.reduce(setup_.exchange.member(child), with, sum);
    with = sum.data();
  }
  if (place.parent < 0 && !sum.empty()) out.complete.push_back(sum);
}

void LaneSchedule::fill_down(std::size_t lane, int round, Round& out) const {
  const TreePlace& place = setup_.lanes[lane];
  const int received = round - down_start(place.depth);
  if (place.parent >= 0 && received >= 0 && received < chunks_)
    out.receive(setup_.exchange.member(place.parent), chunk(lane, received).bytes());
  const int sent = round - down_start(place.depth + 1);
  if (sent < 0 || sent >= chunks_) return;
  for (const int child : place.children)
    out.send(setup_.exchange.member(child), chunk(lane, sent).bytes());
}

}  // namespace real
