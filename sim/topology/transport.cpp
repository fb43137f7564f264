#include "sim/topology/transport.hpp"

#include <algorithm>
#include <cmath>

#include "sim/topology/cluster_data.hpp"

namespace sim {
namespace {

// Links of a kind that a packet crosses, in the mean over the paths of a route.
double crossings(const Cluster& cluster, const Route& route, LinkKind kind) {
  double links = 0;
  for (const Hop& hop : route.hops)
    if (cluster.link(hop.link).kind == kind) links += hop.share / 65536.0;
  return links;
}

// NICs side by side by which a route leaves its node.
double parallel_nics(const Cluster& cluster, const Route& route) {
  for (const Hop& hop : route.hops)
    if (cluster.link(hop.link).kind == LinkKind::nic) return 65536.0 / hop.share;
  return 1;
}

}  // namespace

const Transport& transport_of(const Cluster& cluster) {
  return cluster.data().transport;
}

double sends_per_packet(LossRecovery recovery, double loss, double in_flight) {
  const double again = loss / (1 - loss);  // times that a packet is lost
  return 1 + again * (recovery == LossRecovery::go_back_n ? 1 + in_flight : 1);
}

double expected_timeouts(double loss, double streams, int retries) {
  double mean = 0;
  double lost = 1;  // chance that a packet is lost so many times in a row
  for (int times = 0; times <= retries && lost > 0; ++times) {
    lost *= loss;
    mean += -std::expm1(streams * std::log1p(-lost));
  }
  return mean;
}

int timeouts_at(double loss, double streams, double share, int retries) {
  double lost = 1;
  for (int times = 0; times <= retries; ++times) {
    lost *= loss;
    if (std::exp(streams * std::log1p(-lost)) >= share) return times;
  }
  return retries + 1;
}

PathQuality path_quality(const Cluster& cluster, const Route& route) {
  const Transport& transport = transport_of(cluster);
  PathQuality quality;
  if (route.kind != PathKind::network || !transport.limits()) return quality;
  const double nics = crossings(cluster, route, LinkKind::nic);
  const double switches = crossings(cluster, route, LinkKind::fabric);
  quality.loss = -std::expm1(nics * std::log1p(-transport.nic_loss) +
                             switches * std::log1p(-transport.fabric_loss));
  const double round_trip =
      to_seconds(transport.round_trip > Duration{} ? transport.round_trip : 2 * route.latency);
  double flight = cluster.network().nic_rate.in_bytes_per_second() * round_trip;
  if (transport.window > Bytes{}) {
    const auto window = static_cast<double>(transport.window.count());
    if (round_trip > 0)
      quality.most =
          Bandwidth::bytes_per_second(window / round_trip * parallel_nics(cluster, route));
    flight = std::min(flight, window);
  }
  // At least the one whose arrival tells of the loss.
  const double packets = std::max(1.0, flight / static_cast<double>(transport.mtu.count()));
  quality.sends = sends_per_packet(transport.recovery, quality.loss, packets);
  return quality;
}

PathQuality farthest_path(const Cluster& cluster) {
  if (cluster.nodes() < 2 || !transport_of(cluster).limits()) return {};
  const auto last = static_cast<std::uint32_t>(cluster.gpus() - cluster.gpus_per_node());
  return path_quality(cluster, cluster.route(GpuId{0}, GpuId{last}));
}

// Nodes twice as far each time are behind more and more levels of switches.
PathQuality path_of_latency(const Cluster& cluster, Duration latency) {
  if (!transport_of(cluster).limits()) return {};
  const auto per_node = static_cast<std::uint32_t>(cluster.gpus_per_node());
  for (int node = 1; node < cluster.nodes(); node *= 2) {
    const GpuId there{static_cast<std::uint32_t>(node) * per_node};
    const Route route = cluster.route(GpuId{0}, there);
    if (route.latency >= latency) return path_quality(cluster, route);
  }
  return farthest_path(cluster);
}

// The retry k + 1 timeouts after the link went down is the first to get through with the chance
// e^(-kT/L) - e^(-(k+1)T/L).
FlapOutcome flap_outcome(const Transport& transport, double outage_seconds) {
  const double timeout = to_seconds(transport.timeout);
  const double still_down = std::exp(-timeout / outage_seconds);  // after one more timeout
  FlapOutcome outcome;
  double down = 1;
  for (int retry = 1; retry <= transport.retries; ++retry) {
    outcome.stall += retry * timeout * down * (1 - still_down);
    down *= still_down;
  }
  outcome.fails = down;
  outcome.stall = down < 1 ? outcome.stall / (1 - down) : 0;
  return outcome;
}

}  // namespace sim
