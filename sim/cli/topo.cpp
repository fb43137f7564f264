// stepcast topo: what a cluster file describes, and whether every GPU reaches every other.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
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

}  // namespace

void add_topo(CLI::App& app, ChosenCommand& action) {
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
    if (run == show)
      sub->add_flag("--graphviz", request->graphviz, "the node as a graph: dot -Tsvg");
    sub->callback([request, run, &action] { action = [request, run] { return run(*request); }; });
  };
  add("show", "links, routes, bisection bandwidth, measured curves, device", show);
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
