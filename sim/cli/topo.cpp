// stepcast topo: what a cluster file describes, and whether every GPU reaches every other.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "sim/base/quantity.hpp"
#include "sim/cli/command.hpp"
#include "sim/report/numbers.hpp"
#include "sim/topology/cluster.hpp"

namespace sim {
namespace {

struct Request {
  std::string cluster;
  int nodes = 0;  // 0: as the file says
};

Cluster load(const Request& request) {
  return Cluster::load(find_data_file("topologies", request.cluster),
                       request.nodes > 0 ? std::optional{request.nodes} : std::nullopt);
}

std::string device_text(const Device& device) {
  std::string text = fmt::format("device      {}: {} SMs, {} at {}, {} reserved\n", device.name,
                                 device.sms, to_text(device.memory),
                                 to_text(device.memory_bandwidth), to_text(device.reserved));
  for (const auto& dtype : words_of(DType{}))
    if (const GemmModel* model = device.gemm_model(dtype.value))
      text += fmt::format("            {:<5} {} dense\n", dtype.text, to_text(model->peak));
  return text + fmt::format("            {}\n", device.origin);
}

std::string route_text(const Cluster& cluster, std::uint32_t from, std::uint32_t to) {
  const Route route = cluster.route(GpuId{from}, GpuId{to});
  std::string text = fmt::format("  gpu {} -> gpu {}: {}, {}, {}\n", from, to, word(route.kind),
                                 to_text(route.bandwidth), to_text(route.latency));
  for (const Hop& hop : route.hops)
    text += fmt::format(
        "    {:<48} {:>12}{}\n", cluster.link_name(hop.link),
        to_text(cluster.link(hop.link).capacity),
        hop.share == 65536 ? "" : fmt::format("  {:.2f} % of the traffic", hop.share / 655.36));
  return text;
}

// GPU 0 to one GPU for each distance that there is, by node and by powers of two of nodes.
std::vector<std::uint32_t> sample_targets(const Cluster& cluster) {
  std::vector<std::uint32_t> targets;
  const auto per_node = static_cast<std::uint32_t>(cluster.gpus_per_node());
  for (std::uint32_t gpu = 1; gpu < per_node; gpu *= 2)
    targets.push_back(gpu);
  for (int node = 1; node < cluster.nodes(); node *= 2)
    targets.push_back(static_cast<std::uint32_t>(node) * per_node);
  if (cluster.nodes() > 1) targets.push_back(static_cast<std::uint32_t>(cluster.gpus()) - 1);
  return targets;
}

ExitCode show(const Request& request) {
  const Cluster cluster = load(request);
  std::string text =
      fmt::format("{}: {} nodes of {} GPUs, {} GPUs\n", cluster.name(), grouped(cluster.nodes()),
                  cluster.gpus_per_node(), grouped(cluster.gpus()));
  text += device_text(cluster.device());
  const NetworkTraits& network = cluster.network();
  text += fmt::format(
      "network     {} NICs per node, {} overhead per message, {:.1f} % payload{}{}\n",
      network.nics_per_node, to_text(network.network_overhead), 100 * network.network_efficiency,
      network.nvls ? ", NVLS" : "", network.sharp ? ", SHARP" : "");
  std::map<LinkKind, std::uint64_t> count;
  for (std::uint32_t i = 0; i < cluster.link_count(); ++i)
    ++count[cluster.link(LinkId{i}).kind];
  text += "links      ";
  for (const auto& [kind, number] : count)
    text += fmt::format(" {} {}", grouped(number), word(kind));
  text += " (one direction each)\nroutes\n";
  std::set<std::string> shapes;  // each kind of route once
  for (const std::uint32_t target : sample_targets(cluster)) {
    const Route route = cluster.route(GpuId{0}, GpuId{target});
    const std::string shape =
        fmt::format("{} {} {}", word(route.kind), route.hops.size(), route.latency.count());
    if (shapes.insert(shape).second) text += route_text(cluster, 0, target);
  }
  for (const MeasuredCurve& curve : cluster.measured())
    text += fmt::format("measured    {} on {} ranks of {} nodes, {} sizes: {}\n", curve.collective,
                        curve.ranks, curve.nodes, curve.points.size(), curve.source);
  for (const std::string& source : cluster.sources())
    text += "source      " + source + '\n';
  print_result(text);
  return ExitCode::done;
}

// Every pair within a node, and across nodes every GPU to its like on the other nodes.
ExitCode check(const Request& request) {
  const Cluster cluster = load(request);
  const auto per_node = static_cast<std::uint32_t>(cluster.gpus_per_node());
  std::uint64_t routes = 0;
  const auto walk = [&](std::uint32_t from, std::uint32_t to) {
    const Route route = cluster.route(GpuId{from}, GpuId{to});
    if (from != to && (route.hops.empty() || route.bandwidth.in_bytes_per_second() <= 0))
      throw std::runtime_error(fmt::format("gpu {} does not reach gpu {}", from, to));
    ++routes;
  };
  for (std::uint32_t a = 0; a < per_node; ++a)
    for (std::uint32_t b = 0; b < per_node; ++b)
      walk(a, b);
  for (std::uint32_t node = 1; node < static_cast<std::uint32_t>(cluster.nodes()); ++node)
    for (std::uint32_t a = 0; a < per_node; ++a) {
      walk(a, node * per_node + a);
      walk(node * per_node + a, a);
    }
  print_result(fmt::format("{}: ok, {} routes over {} links\n", cluster.name(), grouped(routes),
                           grouped(cluster.link_count())));
  return ExitCode::done;
}

}  // namespace

void add_topo(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("topo", "what a cluster file describes");
  command->require_subcommand(1);
  const auto add = [&](const char* name, const char* what, ExitCode (*run)(const Request&)) {
    const auto request = std::make_shared<Request>();
    CLI::App* sub = command->add_subcommand(name, what);
    sub->add_option("CLUSTER", request->cluster, "name of a shipped cluster, or a file")
        ->required();
    sub->add_option("--nodes", request->nodes, "number of nodes instead of the file's")
        ->check(CLI::PositiveNumber)
        ->option_text("N");
    sub->callback([request, run, &action] { action = [request, run] { return run(*request); }; });
  };
  add("show", "devices, links, and the routes of GPU 0", show);
  add("check", "read the file strictly and walk the routes", check);
  command->add_subcommand("list", "the clusters that are shipped")->callback([&action] {
    action = [] {
      std::string text;
      for (const std::string& name : data_files("topologies"))
        text += name + '\n';
      print_result(text);
      return ExitCode::done;
    };
  });
  command->footer("Example: stepcast topo show dgx-h100 --nodes 4");
}

}  // namespace sim
