// The data of a Cluster: for the reader that makes it, the fault code, describe() and the tests.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sim/config/reader.hpp"
#include "sim/topology/cluster.hpp"
#include "sim/topology/fabric.hpp"
#include "sim/topology/import/import.hpp"
#include "sim/topology/node_template.hpp"
#include "sim/topology/transport.hpp"

namespace sim {

// Links are numbered node by node in the template's order, then those of the fabric:
// node * links_per_node + k, and nodes * links_per_node + f.
struct Cluster::Data {
  std::string name;
  std::string file;
  Device device;
  int nodes = 1;
  int trays = 1;  // of a node that share its NVSwitch
  NodeTemplate node;
  NodeRoutes routes;
  Fabric fabric;
  NetworkTraits network;
  Transport transport;
  HostTraits host;
  std::vector<MeasuredCurve> measured;
  std::vector<std::string> sources;
  std::vector<std::string> node_notes;  // of an imported node's file; also in `sources`
  std::string not_validated;

  // Changes by faults: capacities by link id, dead links of a node and its routes without them.
  // Ordered maps: small, and never iterated.
  std::map<std::uint32_t, Link> changed_links;
  std::map<int, std::vector<bool>> dead_in_node;
  std::map<int, NodeRoutes> routes_of_node;

  // Links side by side, for link(): it is asked for each hop of each route. Set by index().
  std::vector<Link> flat_node_links, flat_fabric_links;
  std::uint32_t flat_fabric_base = 0;
  void index() {
    for (const PartLink& link : node.links)
      flat_node_links.push_back(link.link);
    for (const auto& link : fabric.links)
      flat_fabric_links.push_back(link.link);
    flat_fabric_base = fabric_base();
  }

  std::uint32_t links_per_node() const { return static_cast<std::uint32_t>(node.links.size()); }
  std::uint32_t fabric_base() const { return static_cast<std::uint32_t>(nodes) * links_per_node(); }
  const NodeRoutes& routes_in(int n) const {
    if (routes_of_node.empty()) return routes;
    const auto found = routes_of_node.find(n);
    return found == routes_of_node.end() ? routes : found->second;
  }
};

// How the files that a cluster file names are read; a fuzzer has none.
struct ClusterFiles {
  std::function<Device(const std::string& path)> device = [](const std::string& path) {
    return load_device(path);
  };
  std::function<ImportedNode(const std::string& path, const ImportDefaults&)> node = import_node;
};

// Reads a cluster file (format: topologies/README.md). Throws InputError.
Cluster::Data read_cluster(const Document& document, std::optional<int> nodes,
                           const ClusterFiles& files = {});

}  // namespace sim
