// Where the members of a group sit, and the ring that NCCL would lay through them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/collective/collective_cost.hpp"

namespace sim {

// Members node by node. A ring over several nodes has one channel per member of a node: channel c
// enters an even node at its member c and walks up to member c - 1, where it leaves; it enters an
// odd node at member c - 1 and walks down to member c. So every channel leaves each node by another
// member, hence another NIC, and stays on one rail between two nodes (NCCL's NCCL_CROSS_NIC=2
// search finds these alternating rings). With an odd number of nodes the closing edge changes
// rails.
class GroupLayout {
 public:
  GroupLayout(const Cluster& cluster, std::span<const GpuId> members);

  int ranks() const { return static_cast<int>(order_.size()); }
  int nodes() const { return static_cast<int>(first_.size()) - 1; }
  int members_of(int node) const {
    return static_cast<int>(first_[static_cast<std::size_t>(node) + 1] -
                            first_[static_cast<std::size_t>(node)]);
  }
  int ranks_per_node() const { return most_; }
  bool uniform() const { return uniform_; }
  bool contiguous() const { return contiguous_; }
  // Channels that leave nodes by different members: as many as the smallest node allows
  // (NVIDIA/nccl v2.30, src/init.cc, initTransportsRank: of what each rank found, the fewest
  // channels).
  int rails() const { return fewest_; }
  GpuId gpu(int node, int local) const {
    return order_[first_[static_cast<std::size_t>(node)] + static_cast<std::size_t>(local)];
  }

 private:
  std::vector<GpuId> order_;          // grouped by node, nodes by first appearance
  std::vector<std::uint32_t> first_;  // per node, offsets into order_
  int most_ = 0, fewest_ = 0;
  bool uniform_ = true;
  bool contiguous_ = true;
};

// Loads of links, summed exactly (fixed point, so in any order) and given in 1/65536.
class LinkLoads {
 public:
  // `resends`: of lost packets, on top of headers; without them the loads are what NCCL knows of.
  explicit LinkLoads(const Cluster& cluster, bool resends = true);
  void reserve(std::size_t hops) { loads_.reserve(hops); }
  // A message stream of `weight` payload per unit of rate on a route.
  void add(const Route& route, double weight);
  std::vector<Hop> hops();  // sorted by link, each once
  // Hops of one message on one route, which uses a link at most once: in the route's order.
  std::vector<Hop> of_route(const Route& route) const;

 private:
  struct Load {
    std::uint32_t link;
    std::uint64_t weight;  // in 2^-32
  };
  // Bytes on NICs and fabric links per byte of payload: headers, and what is sent again.
  double wire_bytes(const Route& route) const;
  std::uint64_t load_of(const Hop& hop, double weight, double wire) const;
  static Hop hop_of(std::uint32_t link, std::uint64_t load);
  void sort_by_link(std::uint32_t last);
  std::vector<Hop> hops_by_table(std::uint32_t last) const;

  const Cluster* cluster_;
  bool resends_;
  double network_header_;  // of wire_bytes(), what headers are
  std::vector<Load> loads_;
};
std::vector<Hop> merged(std::span<const Hop> a, std::span<const Hop> b);

// Smallest capacity / share: the rate that fills the fullest link. 0 for no hops.
Bandwidth rate_limit(const Cluster& cluster, std::span<const Hop> hops);

// Streams between neighbours within nodes, each member sending `weight` to its successor or
// predecessor.
enum class RingDirection : std::uint8_t { up, down, alternate };  // alternate: down in odd nodes
struct IntraTotals {
  PathKind worst = PathKind::nvlink;
  std::int64_t latency_ps = 0;
  int routes = 0;
};
IntraTotals add_ring_within_nodes(const Cluster& cluster, const GroupLayout& layout, double weight,
                                  RingDirection direction, LinkLoads& loads);

}  // namespace sim
