// The transport of the NICs: packets that get lost on the way, what recovers them, and how much may
// be under way. The section `transport` of a cluster file.
//
// Formulas: sim/collective/ALGORITHMS.md, "Lost packets". NVLink, PCIe and the links between
// sockets lose nothing here.
#pragma once

#include <array>
#include <cstdint>

#include "sim/base/units.hpp"
#include "sim/base/words.hpp"

namespace sim {

class Cluster;
struct Route;

// LossRecovery: what is sent again. go_back_n: the lost packet and all behind it, as RoCE NICs do
// (Mittal et al. 2018, section 2.1). selective_repeat: it alone.
enum class LossRecovery : std::uint8_t { go_back_n, selective_repeat };
constexpr auto words_of(LossRecovery) {
  return std::array{Word{LossRecovery::go_back_n, "go_back_n"},
                    Word{LossRecovery::selective_repeat, "selective_repeat"}};
}

// Defaults of timeout and retries: NCCL_IB_TIMEOUT 20, which is 4.096 us x 2^20, and
// NCCL_IB_RETRY_CNT 7 (NVIDIA/nccl src/transport/net_ib.cc).
struct Transport {
  double nic_loss = 0, fabric_loss = 0;  // chance that such a link loses a packet
  LossRecovery recovery = LossRecovery::go_back_n;
  Bytes mtu{4096};
  Duration timeout{4'294'967'296'000};  // until an unanswered packet is sent again
  int retries = 7;                      // then the connection fails
  Bytes window{};                       // most under way from a NIC to one peer; 0: no limit
  Duration round_trip{};                // 0: twice the latency of the route
  // Whether it costs anything at all.
  bool limits() const { return nic_loss > 0 || fabric_loss > 0 || window > Bytes{}; }
};

// The quality of a route under the transport: ideal where it stays within a node.
struct PathQuality {
  double loss = 0;   // chance that a packet is lost on the way
  double sends = 1;  // packets on the wire per packet delivered
  Bandwidth most{};  // window / round trip, over all NICs of the route; 0: no limit
};
PathQuality path_quality(const Cluster& cluster, const Route& route);

// For costs that know no route of their own: the way from node 0 to the last one, and the shortest
// one from node 0 whose latency is at least `latency`.
PathQuality farthest_path(const Cluster& cluster);
PathQuality path_of_latency(const Cluster& cluster, Duration latency);

const Transport& transport_of(const Cluster& cluster);

// Packets on the wire per packet delivered, where `in_flight` packets follow one until the sender
// knows of its loss. REQUIRES: 0 <= loss < 1, in_flight >= 1.
double sends_per_packet(LossRecovery recovery, double loss, double in_flight);

// Mean number of timeouts until the last packets of all `streams` have arrived: no packet behind
// them tells the receiver of their loss. At most retries + 1 of them. Of first order in `loss`.
double expected_timeouts(double loss, double streams, int retries);

// The least number of timeouts that is enough for `share` of all times: a quantile of the same.
int timeouts_at(double loss, double streams, double share, int retries);

// A link that goes down for an exponential time with mean `outage`, under traffic.
struct FlapOutcome {
  double stall = 0;  // s, mean of those that the connection survives: until the next retry
  double fails = 0;  // chance that all retries come too early
};
FlapOutcome flap_outcome(const Transport& transport, double outage_seconds);

}  // namespace sim
