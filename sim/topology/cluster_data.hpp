// The data of a Cluster: for the reader that makes it, the fault code, describe() and the tests.
#pragma once

#include <functional>
#include <map>
#include <span>
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
  // Nodes of one kind, one after another.
  struct Pool {
    std::string name;  // of the cluster file that describes it
    int first_node = 0;
    int nodes = 1;
    Device device;
    int trays = 1;  // of a node that share its NVSwitch
    NodeTemplate node;
    NodeRoutes routes;
    NetworkTraits network;
    HostTraits host;
    std::vector<MeasuredCurve> measured;
    std::string not_validated;
    std::vector<Link> flat_links;  // of a node, side by side, for link(). Set by index()
  };

  std::string name;
  std::string file;
  int nodes = 1;                        // of the machine
  std::vector<std::string> node_names;  // of all of them, in the order of the fabric; or empty
  std::vector<Pool> pools{1};
  Pool joint;  // of several pools: what groups across them go by (joint_pool()). Its node is empty
  Fabric fabric;
  Transport transport;
  std::vector<std::string> sources;
  std::vector<std::string> node_notes;  // of an imported node's file; also in `sources`

  // Changes by faults: capacities by link id, dead links of a node and its routes without them.
  // Ordered maps: small, and never iterated.
  std::map<std::uint32_t, Link> changed_links;
  std::map<int, std::vector<bool>> dead_in_node;
  std::map<int, NodeRoutes> routes_of_node;

  // Links side by side, for link(): it is asked for each hop of each route. Set by index().
  std::vector<Link> flat_fabric_links;
  std::uint32_t flat_fabric_base = 0;
  std::uint32_t most_node_links = 0;  // of a pool's node: the others have numbers without a link
  void index();

  std::size_t pool_index(int node) const {
    std::size_t index = 0;
    while (index + 1 < pools.size() && node >= pools[index + 1].first_node)
      ++index;
    return index;
  }
  const Pool& pool_of(int node) const { return pools[pool_index(node)]; }
  const Pool& view(std::size_t pool) const { return pool < pools.size() ? pools[pool] : joint; }

  std::uint32_t links_per_node() const { return most_node_links; }
  std::uint32_t fabric_base() const { return static_cast<std::uint32_t>(nodes) * links_per_node(); }
  const NodeRoutes& routes_in(int n) const {
    const auto found = routes_of_node.find(n);
    return found == routes_of_node.end() ? pool_of(n).routes : found->second;
  }
};

// How the files that a cluster file names are read; a fuzzer has none.
struct ClusterFiles {
  std::function<Device(const std::string& path)> device = [](const std::string& path) {
    return load_device(path);
  };
  std::function<ImportedNode(const std::string& path, const ImportDefaults&)> node = import_node;
  std::function<Document(const std::string& path)> cluster = [](const std::string& path) {
    return Document::load(path);
  };
};

// The figures of a group across pools: the weaker of each pair, and no measured curves.
Cluster::Data::Pool joint_pool(std::span<const Cluster::Data::Pool> pools);

// Reads a cluster file (format: topologies/README.md). Throws InputError.
Cluster::Data read_cluster(const Document& document, std::optional<int> nodes,
                           const ClusterFiles& files = {});

}  // namespace sim
