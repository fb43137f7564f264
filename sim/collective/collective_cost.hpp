// The cost of a collective on a group of devices: which algorithm and protocol, its latency, its
// transfer time alone on the machine, and the links it loads meanwhile.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sim/program/program.hpp"
#include "sim/topology/cluster.hpp"

namespace sim {

enum class Algorithm : std::uint8_t {
  automatic,
  ring,
  tree,              // double binary tree
  halving_doubling,  // recursive halving, recursive doubling
  hierarchical,      // inside the node, then across nodes per rail, then inside the node
  in_switch,         // NVLS in the node, SHARP in the fabric
  parameter_server,  // synchronous push and pull, S shards
  direct,            // pairwise messages: all-to-all, send/receive
};
constexpr auto words_of(Algorithm) {
  return std::array{Word{Algorithm::automatic, "auto"},
                    Word{Algorithm::ring, "ring"},
                    Word{Algorithm::tree, "tree"},
                    Word{Algorithm::halving_doubling, "halving_doubling"},
                    Word{Algorithm::hierarchical, "hierarchical"},
                    Word{Algorithm::in_switch, "in_switch"},
                    Word{Algorithm::parameter_server, "parameter_server"},
                    Word{Algorithm::direct, "direct"}};
}

enum class Protocol : std::uint8_t { automatic, simple, ll, ll128 };
constexpr auto words_of(Protocol) {
  return std::array{Word{Protocol::automatic, "auto"}, Word{Protocol::simple, "simple"},
                    Word{Protocol::ll, "ll"}, Word{Protocol::ll128, "ll128"}};
}

struct CollectiveChoice {
  Algorithm algorithm = Algorithm::automatic;
  Protocol protocol = Protocol::automatic;
  int server_shards = 1;     // parameter_server
  bool use_measured = true;  // the topology's curves, where `algorithm` is automatic
  int nccl = 0;              // version whose choices are asked for; 0: the network's
  int least_blocks = 0;      // NCCL_MIN_CTAS
  int most_blocks = 0;       // NCCL_MAX_CTAS; 0: no limit
  bool operator==(const CollectiveChoice&) const = default;
};

// All about a group that a cost may depend on. Groups of equal shape have equal costs, so costs are
// computed once per shape. Bandwidths are payload: what headers take is already off.
struct GroupShape {
  int ranks = 1;
  int nodes = 1;
  int ranks_per_node = 1;  // most members on one node
  int nics_per_node = 0;   // NICs (or bundles that a member drives as one) that the ring leaves a
                           // node by; 0 on one node
  bool uniform = true;     // every node holds the same number
  bool contiguous = true;  // the members of a node follow each other in the communicator
  PathKind intra = PathKind::nvlink;  // worst path between neighbours of one node
  Bandwidth intra_bandwidth{};  // ring bus bandwidth within a node; 0 where a node has one member
  Bandwidth inter_bandwidth{};  // per node and direction, over all NICs that the group reaches; 0
                                // on one node
  Bandwidth ring_bandwidth{};   // bus bandwidth of the group's own ring, alone on the machine: over
                                // its NICs, its nodes' links and the fabric links it crosses
  Duration intra_latency{};     // of the links, one hop of the ring, on average
  Duration inter_latency{};
  std::size_t pool = 0;  // Cluster::of_group() of the members
  bool operator==(const GroupShape&) const = default;
};
GroupShape group_shape(const Cluster& cluster, std::span<const GpuId> members);

struct CollectiveCost {
  Algorithm algorithm = Algorithm::ring;
  Protocol protocol = Protocol::simple;
  Duration latency{};     // nothing is shared meanwhile
  Duration transfer{};    // at full rate, alone on the machine; latency + transfer = closed form
  Bandwidth rate{};       // bytes/s on a link whose pattern share is 65536, at full rate
  int channels = 0;       // SMs it occupies on every member
  int flows = 1;          // equal flows that make up `rate`: a link of share s carries s / 65536 of
                          // them (ALGORITHMS.md, "Flows")
  Bandwidth memory{};     // device memory traffic on every member at full rate
  bool measured = false;  // taken from a measured curve of the topology
  Duration link_time{};   // of `transfer`, what the links alone would take (stepwise needs it)
  int rounds = 0;         // of the algorithm's message sequence
};

// REQUIRES: shape == group_shape(cluster, members) for the group it is used on.
CollectiveCost collective_cost(const Cluster& cluster, const GroupShape& shape,
                               const Collective& request, CollectiveChoice choice);

// The links that an algorithm loads on this group, with shares relative to CollectiveCost::rate
// (in 1/65536; above 65536 where it loads a link more than its neighbours). Sorted by link, each
// once. Depends on kind only between {all_to_all} and the rest.
std::vector<Hop> collective_pattern(const Cluster& cluster, std::span<const GpuId> members,
                                    CollectiveKind kind, Algorithm algorithm, int server_shards);

// A message between two devices (pipeline send/receive), and the links it loads.
CollectiveCost transfer_cost(const Cluster& cluster, const Route& route, Bytes bytes,
                             int most_blocks = 0);
std::vector<Hop> transfer_pattern(const Cluster& cluster, const Route& route);

// Bus bandwidth factor of nccl-tests (doc/PERFORMANCE.md): busbw = algbw * factor.
double bus_factor(CollectiveKind kind, int ranks);

// --- stepwise: the algorithm as its sequence of messages --------------------------------------

struct StepSend {
  std::uint32_t to = 0;  // index in the group
  Bytes bytes{};
  int lanes = 1;  // of the sequence's lanes, those that this message goes by
};

// Rounds of messages. A rank enters round k + 1 once all that it sends and receives in round k has
// arrived; a message of round k starts when its sender has entered round k.
class StepSequence {
 public:
  virtual ~StepSequence() = default;
  virtual int rounds() const = 0;
  // Equal parts into which the channels fall, each with a way of its own through the members.
  virtual int lanes() const { return 1; }
  virtual void sends(int rank, int round, std::vector<StepSend>& out) const = 0;  // replaces `out`
  virtual int receives(int rank, int round) const = 0;  // number of messages
};
// Throws std::invalid_argument where an algorithm has no message sequence (in_switch), and for
// groups whose members are not listed node by node or not evenly spread.
std::unique_ptr<StepSequence> step_sequence(const Collective& request, const CollectiveCost& cost,
                                            const GroupShape& shape, int server_shards);
// Per message: latency of one step of this algorithm and protocol, beside the route's own. It
// spreads evenly over the rounds all that the closed form holds beyond the links' own time, so it
// may be negative where pipelining hides part of the route's latency: route latency + overhead, at
// least 0.
Duration step_overhead(const CollectiveCost& cost, const GroupShape& shape, PathKind path);

}  // namespace sim
