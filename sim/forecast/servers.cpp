#include "sim/forecast/servers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sim/base/check.hpp"
#include "sim/base/input_error.hpp"
#include "sim/options/device_spread.hpp"
#include "sim/plan/server_exchange.hpp"
#include "sim/servers/run_servers.hpp"
#include "sim/topology/transport.hpp"

namespace sim {
namespace {

constexpr int most_workers = 256;
// most_shares limits parts: each is shared out anew among the messages of all workers, so many
// times.
constexpr std::int64_t most_shares = 2'000'000;

[[noreturn]] void refuse(const std::string& what) {
  throw InputError{SourcePosition{"layout.servers", 0, 0}, what};
}

// ServerNode is a node with servers, and their share of all parameters.
struct ServerNode {
  int node = 0;
  double share = 0;
};
std::vector<ServerNode> server_nodes(const Layout& layout, const Cluster& cluster) {
  const ServerShares shares = server_shares(layout, cluster.gpus_per_node());
  const int nodes = shares.nodes;
  const int machines = layout.server_machines;
  if (nodes + machines > cluster.nodes())
    refuse(
        fmt::format("{} nodes of workers and {} machines of servers are more than the {} nodes "
                    "of the cluster; set cluster.nodes to {} and "
                    "cluster.gpus to {}",
                    nodes, machines, cluster.nodes(), nodes + machines, layout.world_size()));
  std::vector<ServerNode> all;
  for (int node = 0; node < nodes && shares.of_node > 0; ++node)
    all.push_back({node, shares.of_node});
  for (int machine = 0; machine < machines && shares.of_machine > 0; ++machine)
    all.push_back({nodes + machine, shares.of_machine});
  return all;
}

// update_rate() is the bandwidth that updates get on a node's host.
Bandwidth update_rate(const Cluster& cluster, const SimulationOptions& options) {
  const Bandwidth memory = cluster.host().bandwidth;
  if (memory == Bandwidth{})
    refuse(
        "the cluster says nothing of the host on which servers run; add host: {bandwidth: ...} "
        "to its file, or cluster.change.host.bandwidth");
  const Bandwidth measured = options.host_update * static_cast<double>(cluster.node_gpus());
  return measured == Bandwidth{} ? memory : std::min(memory, measured);
}

std::int64_t capacity_of(const Cluster& cluster, const Link& link) {
  const bool network = link.kind == LinkKind::nic || link.kind == LinkKind::fabric;
  const double payload =
      network ? cluster.network().network_efficiency / farthest_path(cluster).sends : 1;
  return static_cast<std::int64_t>(link.capacity.in_bytes_per_second() * payload);
}

class SystemBuilder {
 public:
  SystemBuilder(const Plan& plan, const Cluster& cluster, const SimulationOptions& options,
                const Timeline& step)
      : plan_{plan}, layout_{plan.layout}, cluster_{cluster}, options_{options}, step_{step} {
    if (layout_.workers() > most_workers)
      refuse(fmt::format("{} workers; allowed: up to {}", layout_.workers(), most_workers));
    const int gpus = layout_.worker_gpus(), of_node = cluster.gpus_per_node();
    if (of_node % gpus != 0)
      refuse(
          fmt::format("workers of {} GPUs (layout.shard_group) on nodes of {}; allowed: a "
                      "divisor of {}",
                      gpus, of_node, of_node));
    nodes_ = server_nodes(layout_, cluster);
    for (std::uint32_t link = 0; link < cluster.link_count(); ++link)
      system_.capacities.push_back(capacity_of(cluster, cluster.link(LinkId{link})));
  }

  ServerSystem build() {
    system_.mode = layout_.servers;
    system_.staleness = layout_.staleness;
    system_.jitter = options_.jitter;
    system_.seed = options_.seed;
    add_messages();
    check_parts();
    add_workers();
    leave_out_ample_links();
    return std::move(system_);
  }

 private:
  // A bucket's exchange begins when it is ready, and all of its parts with it.
  void add_messages() {
    const double rate = update_rate(cluster_, options_).in_bytes_per_second();
    const double most =
        std::max_element(nodes_.begin(), nodes_.end(),
                         [](const ServerNode& a, const ServerNode& b) { return a.share < b.share; })
            ->share;
    const RankTrack& track = step_.tracks.front();
    const Program& program = plan_.program(track.rank);
    TimePoint optimizer = step_.end;
    for (const Span& span : track.spans) {
      const bool behind = !system_.messages.empty();
      if (behind && program.stream[span.op.value] == Stream::compute &&
          program.pass[span.op.value] == Pass::optimizer)
        optimizer = std::min(optimizer, span.begin);
      if (program.action[span.op.value] != Action::exchange_with_servers) continue;
      const std::int64_t owned = program.kernels[program.work[span.op.value]].m;
      const std::int64_t part = server_part(layout_, owned);
      for (std::int64_t first = 0; first < owned; first += part) {
        const ServerBytes bytes =
            server_bytes(layout_, std::min(part, owned - first) * layout_.worker_gpus());
        system_.messages.push_back({.ready = span.begin.time_since_epoch(),
                                    .pushed = bytes.pushed,
                                    .pulled = bytes.pulled,
                                    .update = duration_from_seconds(
                                        static_cast<double>(bytes.updated.count()) * most / rate)});
      }
    }
    SIM_CHECK(!system_.messages.empty());
    system_.compute = optimizer.time_since_epoch();
    system_.tail = step_.end - optimizer;
  }

  void check_parts() const {
    const auto parts = static_cast<std::int64_t>(system_.messages.size());
    const std::int64_t workers = layout_.workers(), most = most_shares / workers / workers;
    if (layout_.server_partition && parts > most)
      refuse(
          fmt::format("{} parts of gradients in a step of {} workers; allowed: up to {}, with a "
                      "larger layout.servers.partition",
                      parts, workers, most));
  }

  void add_workers() {
    const int gpus = layout_.worker_gpus();
    for (int first = 0; first < layout_.world_size(); first += gpus) {
      ServerWorker& worker = system_.workers.emplace_back();
      worker.slowness = 0;
      for (int rank = first; rank < first + gpus; ++rank)
        worker.slowness = std::max(worker.slowness, slowness(rank));
      worker.push = route(first, true);
      worker.pull = route(first, false);
    }
  }

  // leave_out_ample_links(): among links that the same messages use in the same parts, only the one
  // with the least capacity can be what they wait for: the cards of a server's node, and what lies
  // behind each.
  void leave_out_ample_links() {
    using Users = std::vector<std::pair<std::uint32_t, std::uint64_t>>;  // messages and weights
    std::map<std::uint32_t, Users> users;
    for_each_route([&](std::uint32_t number, ServerRoute& route) {
      for (const ResourceUse& use : route.links)
        users[use.resource].emplace_back(number, use.weight);
    });
    std::map<Users, std::uint32_t> kept;
    for (const auto& [link, of] : users) {
      const auto [known, first] = kept.try_emplace(of, link);
      if (!first && system_.capacities[link] < system_.capacities[known->second])
        known->second = link;
    }
    for_each_route([&](std::uint32_t, ServerRoute& route) {
      std::erase_if(route.links, [&](const ResourceUse& use) {
        return kept.at(users.at(use.resource)) != use.resource;
      });
    });
  }

  template <class Visit>
  void for_each_route(const Visit& visit) {
    std::uint32_t number = 0;
    for (ServerWorker& worker : system_.workers) {
      visit(number++, worker.push);
      visit(number++, worker.pull);
    }
  }

  // slowness() is of one device, where devices differ in speed: the step was simulated at that of
  // the slowest.
  double slowness(int rank) const {
    const int ranks = layout_.world_size();
    double factor = 1;
    if (options_.device_spread > 0 && ranks > 1) {
      const double slowest = slowest_of(ranks, options_.device_spread);
      const double place = 2.0 * rank / (ranks - 1) - 1;  // from the fastest to the slowest
      factor = (1 + (slowest - 1) * place) / slowest;
    }
    for (const Straggler& straggler : options_.stragglers)
      if (static_cast<int>(straggler.rank.value) == rank) factor *= straggler.factor;
    return factor;
  }

  // The GPUs of a worker send a shard each, part by part to every server, whose node takes it by
  // all its network cards. On its own node a worker copies over the paths to the host.
  ServerRoute route(int first, bool out) {
    std::map<std::uint32_t, double> weights;
    Duration longest{};
    const int gpus = layout_.worker_gpus();
    for (int rank = first; rank < first + gpus; ++rank) {
      const GpuId gpu{static_cast<std::uint32_t>(rank)};
      for (const ServerNode& server : nodes_)
        if (server.node != cluster_.node_of(gpu))
          longest = std::max(longest, add_way(gpu, server, out, weights));
    }
    const Transport& transport = transport_of(cluster_);
    const double timeouts = expected_timeouts(farthest_path(cluster_).loss, 1, transport.retries);
    system_.latency = std::max(system_.latency,
                               longest + 2 * cluster_.network().network_overhead +
                                   duration_from_seconds(timeouts * to_seconds(transport.timeout)));
    const Bandwidth copy = cluster_.host_copy();
    double rate = copy > Bandwidth{} ? copy.in_bytes_per_second() * gpus
                                     : cluster_.host().bandwidth.in_bytes_per_second();
    ServerRoute made;
    for (const auto& [link, weight] : weights) {
      const auto whole = static_cast<std::uint64_t>(std::max(1.0, weight));
      made.links.push_back({link, whole});
      rate = std::min(
          rate, static_cast<double>(system_.capacities[link]) * 65536 / static_cast<double>(whole));
    }
    made.rate = std::max<std::int64_t>(1, static_cast<std::int64_t>(rate));
    return made;
  }

  // Between a GPU and all network cards of a server's node, of all that its worker sends.
  Duration add_way(GpuId gpu, const ServerNode& server, bool out,
                   std::map<std::uint32_t, double>& weights) const {
    Duration longest{};
    const int cards = cluster_.gpus_per_node();
    const double share = server.share / cards / layout_.worker_gpus();
    for (int i = 0; i < cards; ++i) {
      const GpuId at{static_cast<std::uint32_t>(server.node * cards + i)};
      const Route way = out ? cluster_.route(gpu, at) : cluster_.route(at, gpu);
      longest = std::max(longest, way.latency);
      for (const Hop& hop : way.hops)
        weights[hop.link.value] += share * hop.share;
    }
    return longest;
  }

  const Plan& plan_;
  const Layout& layout_;
  const Cluster& cluster_;
  const SimulationOptions& options_;
  const Timeline& step_;
  std::vector<ServerNode> nodes_;
  ServerSystem system_;
};

}  // namespace

SimulationOptions options_of_worker(const SimulationOptions& options) {
  SimulationOptions alone = options;
  alone.jitter = 0;
  alone.stragglers.clear();
  alone.record_spans = true;
  return alone;
}

ServerSystem server_system(const Plan& plan, const Cluster& cluster,
                           const SimulationOptions& options, const Timeline& step) {
  SIM_CHECK(plan.layout.has_servers());
  return SystemBuilder{plan, cluster, options, step}.build();
}

ServerRun simulate_servers(const Plan& plan, const Cluster& cluster,
                           const SimulationOptions& options, const Timeline& step,
                           const Control& control) {
  return run_servers(server_system(plan, cluster, options, step), control);
}

}  // namespace sim
