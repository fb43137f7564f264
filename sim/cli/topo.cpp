// stepcast topo: what a cluster file describes, and whether every GPU reaches every other.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <stdexcept>

#include "sim/base/quantity.hpp"
#include "sim/cli/command.hpp"
#include "sim/report/numbers.hpp"
#include "sim/topology/cluster.hpp"
#include "sim/topology/describe.hpp"

namespace sim {
namespace {

struct Request {
  std::string cluster;
  int nodes = 0;  // 0: as the file says
  bool graphviz = false;
};

Cluster load(const Request& request) {
  return Cluster::load(find_data_file("topologies", request.cluster),
                       request.nodes > 0 ? std::optional{request.nodes} : std::nullopt);
}

std::string device_text(const Device& device) {
  std::string text = fmt::format("device: {}, {} SMs, {} at {}, {} reserved\n", device.name,
                                 device.sms, to_text(device.memory),
                                 to_text(device.memory_bandwidth), to_text(device.reserved));
  for (const auto& dtype : words_of(DType{}))
    if (const GemmModel* model = device.gemm_model(dtype.value))
      text += fmt::format("  {:<5} {} dense\n", dtype.text, to_text(model->peak));
  return text + fmt::format("  {}\n", device.origin);
}

ExitCode show(const Request& request) {
  const Cluster cluster = load(request);
  print_result(request.graphviz ? node_graphviz(cluster)
                                : describe(cluster) + device_text(cluster.device()));
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

ExitCode list() {
  std::string text;
  for (const std::string& name : data_files("topologies"))
    text += name + '\n';
  print_result(text);
  return ExitCode::done;
}

Options cluster_options(Request& request) {
  return {{.name = "CLUSTER",
           .into = &request.cluster,
           .help = "name of a shipped cluster, or a file",
           .required = true},
          {.name = "--nodes",
           .into = &request.nodes,
           .form = "N",
           .help = "number of nodes instead of the file's",
           .check = Positive{}}};
}

Command show_command() {
  const auto request = std::make_shared<Request>();
  return {.name = "show",
          .help = "links, routes, bisection bandwidth, measured curves, device",
          .options = joined({cluster_options(*request),
                             {{.name = "--graphviz",
                               .into = &request->graphviz,
                               .help = "the node as a graph: dot -Tsvg"}}}),
          .run = [request] { return show(*request); }};
}

Command check_command() {
  const auto request = std::make_shared<Request>();
  return {.name = "check",
          .help = "read the file strictly and walk the routes",
          .options = cluster_options(*request),
          .run = [request] { return check(*request); }};
}

}  // namespace

Command topo_command() {
  return {.name = "topo",
          .help = "what a cluster file describes",
          .commands = {show_command(),
                       check_command(),
                       {.name = "list", .help = "the clusters that are shipped", .run = list}},
          .footer = "Example: stepcast topo show dgx-h100 --nodes 4"};
}

}  // namespace sim
