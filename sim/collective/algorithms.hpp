// Declarations that the room's files share: the closed form, the link pattern and the message
// sequence of each algorithm, one file each.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "sim/collective/collective_cost.hpp"
#include "sim/collective/group_layout.hpp"
#include "sim/collective/nccl_tuning.hpp"
#include "sim/topology/transport.hpp"

namespace sim {

struct RingLoads {
  LinkLoads within;
  LinkLoads across;
  double intra_weight = 1;  // of a stream between neighbours of a node
  IntraTotals intra{};
  std::int64_t inter_latency_ps = 0;
  int inter_routes = 0;
  int nics = 0;  // by which the ring leaves the first node
};
RingLoads ring_loads(const Cluster& cluster, const GroupLayout& layout, bool resends);

// All that a closed form reads. Seconds and bytes/s.
struct FormInput {
  GroupShape shape;
  NcclGroup group;
  CollectiveKind kind = CollectiveKind::all_reduce;
  double bytes = 0;
  Protocol protocol = Protocol::simple;
  int shards = 1;
  double network_overhead = 0;
  double simple_overhead = 0;
  std::optional<Bytes> most_ll{}, most_ll128{};  // NetworkTraits
  bool nvls = false;
  bool sharp = false;
  Transport transport{};
  double packet_loss = 0;  // on the way between nodes

  int ranks() const { return shape.ranks; }
  int nodes() const { return shape.nodes; }
  int per_node() const { return shape.ranks_per_node; }
  double intra_bw() const { return shape.intra_bandwidth.in_bytes_per_second(); }
  double inter_bw() const { return shape.inter_bandwidth.in_bytes_per_second(); }
  double ring_bw() const { return shape.ring_bandwidth.in_bytes_per_second(); }
};

// Latency of one hop, in seconds. NCCL's in-node constants were measured over the links themselves,
// so the longer of the two counts. Its network constants were measured over InfiniBand; what a path
// and its transport take beyond that is added, as NCCL adds the latency that a network plugin
// reports (graph.latencyInter).
struct HopSeconds {
  double base = 0;
  double intra = 0;
  double inter = 0;
};
HopSeconds hop_seconds(const FormInput& in, Algorithm algorithm);

struct Form {
  double latency = 0;       // s, nothing shared
  double link_time = 0;     // s, the links alone
  double transfer = 0;      // s, with what protocol and pipeline take; >= link_time
  double traffic = 0;       // bytes through a link of share 65536
  double memory_bytes = 0;  // device memory read and written on a member, all in all
  int channels = 1;
  int flows = 1;
  int rounds = 1;
};

// Takes off the bandwidths of `in` what a network that loses packets takes, once NCCL has chosen
// by those that it knows of (lossy_network.cpp).
void apply_transport(const Cluster& cluster, FormInput& in);

// tail_seconds() is what the last packets of `streams` wait for where some get lost, on average: 0
// on an ideal network (lossy_network.cpp). The second one counts the streams of a form.
double tail_seconds(const Transport& transport, double loss, double streams);
double tail_seconds(const FormInput& in, Algorithm algorithm, const Form& form);

// The form of a group on one node, whose carrier is not NCCL. `small_kernel`: of the device, s.
Form user_buffer_form(const FormInput& in, const Collective& request, double small_kernel);

// The form of DeepEP and HybridEP. `small_kernel`: as above.
Form fused_exchange_form(const FormInput& in, const Collective& request, double small_kernel);

// Adds a send. All bytes from a rank to one peer in one round are one message, by one lane more
// with each call.
void add_send(std::vector<StepSend>& out, int to, std::int64_t bytes);

Form ring_form(const FormInput& in);
std::vector<Hop> ring_pattern(const Cluster& cluster, const GroupLayout& layout);
std::unique_ptr<StepSequence> ring_steps(const Collective& request, const GroupShape& shape,
                                         int channels);

Form tree_form(const FormInput& in);
// The streams of both trees over the nodes; a stream of a channel carries n/(2g) of the 2n.
void add_tree_across_nodes(const Cluster& cluster, const GroupLayout& layout, LinkLoads& loads);
std::vector<Hop> tree_pattern(const Cluster& cluster, const GroupLayout& layout);
std::unique_ptr<StepSequence> tree_steps(const Collective& request, const GroupShape& shape,
                                         int channels, Protocol protocol);

Form halving_doubling_form(const FormInput& in);
std::vector<Hop> halving_doubling_pattern(const Cluster& cluster, const GroupLayout& layout);
std::unique_ptr<StepSequence> halving_doubling_steps(const Collective& request,
                                                     const GroupShape& shape);

Form hierarchical_form(const FormInput& in);
std::vector<Hop> hierarchical_pattern(const Cluster& cluster, const GroupLayout& layout);
std::unique_ptr<StepSequence> hierarchical_steps(const Collective& request,
                                                 const GroupShape& shape);

Form in_switch_form(const FormInput& in);
std::vector<Hop> in_switch_pattern(const Cluster& cluster, const GroupLayout& layout);

Form parameter_server_form(const FormInput& in);
std::vector<Hop> parameter_server_pattern(const Cluster& cluster, const GroupLayout& layout,
                                          int shards);
std::unique_ptr<StepSequence> parameter_server_steps(const Collective& request,
                                                     const GroupShape& shape, int shards);

Form direct_form(const FormInput& in);
std::vector<Hop> direct_pattern(const Cluster& cluster, const GroupLayout& layout);
// The pattern of a ring shift: every member sends to the next in the group's order.
std::vector<Hop> shift_pattern(const Cluster& cluster, std::span<const GpuId> members);
std::unique_ptr<StepSequence> direct_steps(const Collective& request, const GroupShape& shape);

// "hierarchical broadcast is not modelled: WHY"
[[noreturn]] void refuse(Algorithm algorithm, CollectiveKind kind, const char* why);

constexpr bool is_all_reduce(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce || kind == CollectiveKind::barrier;
}
constexpr bool is_rooted(CollectiveKind kind) {
  return kind == CollectiveKind::broadcast || kind == CollectiveKind::reduce;
}
constexpr bool is_scatter_or_gather(CollectiveKind kind) {
  return kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::all_gather;
}
// A barrier is an all-reduce of one element, as in PyTorch's ProcessGroupNCCL::barrier.
inline constexpr Bytes barrier_bytes{4};
inline Bytes payload(const Collective& request) {
  return request.kind == CollectiveKind::barrier ? barrier_bytes : request.bytes;
}

// Share `index` of `bytes` split over `parts`: parts differ by a byte at most and sum to all.
constexpr std::int64_t part_of(std::int64_t bytes, std::int64_t parts, std::int64_t index) {
  return bytes / parts + (index < bytes % parts ? 1 : 0);
}

// Which (algorithm, protocol) NCCL would take (selection.cpp).
struct Selected {
  Algorithm algorithm = Algorithm::ring;
  Protocol protocol = Protocol::simple;
};
Selected select(const FormInput& in, CollectiveChoice choice);

// The curve of the same collective, ranks, nodes and algorithm (automatic: a curve of the library's
// own choice), if there is one (measured.cpp).
const MeasuredCurve* find_curve(const Cluster& cluster, std::string_view collective, int ranks,
                                int nodes, Algorithm algorithm);
double interpolate(const MeasuredCurve& curve, double bytes);  // s; within the ends of the curve

}  // namespace sim
