// stepcast topo: what a cluster file describes, and whether every GPU reaches every other.
#include <fmt/format.h>

#include <memory>

#include "sim/base/table_text.hpp"
#include "sim/cli/command.hpp"
#include "sim/config/foreign/foreign_format.hpp"
#include "sim/topology/describe.hpp"
#include "sim/topology/route_check.hpp"
#include "sim/topology/survey/survey.hpp"

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

// A file of InfiniBand or Slurm in place of a cluster: what it holds.
bool shows_fabric(const Request& request) {
  if (!is_fabric_file(head_of_file(request.cluster))) return false;
  for (const FabricSurvey& survey : survey_fabric_file(request.cluster))
    print_result(describe(survey));
  return true;
}

ExitCode show(const Request& request) {
  if (shows_fabric(request)) return ExitCode::done;
  const Cluster cluster = load(request);
  print_result(request.graphviz ? node_graphviz(cluster)
                                : describe(cluster) + describe(cluster.device()));
  return ExitCode::done;
}

ExitCode check(const Request& request) {
  if (shows_fabric(request)) return ExitCode::done;
  const Cluster cluster = load(request);
  const std::uint64_t routes = check_routes(cluster);
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

Command check_cluster_command() {
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
                       check_cluster_command(),
                       {.name = "list", .help = "the clusters that are shipped", .run = list}},
          .footer = "Example: stepcast topo show dgx-h100 --nodes 4"};
}

}  // namespace sim
