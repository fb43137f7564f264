// A cluster as tiers: parts of one kind, and the links of one direction between two kinds. Nodes
// are copies of one template and switches of a tier are alike, so a picture shows tiers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/topology/cluster.hpp"

namespace sim {

// All parts of a kind: GPUs, PCIe switches, NICs, leaf switches, ...
struct PartTier {
  std::string name;         // "gpu", "nvswitch", "nic", "leaf", "spine"
  std::uint32_t count = 0;  // over the cluster
  int level = 0;            // 0: GPUs; ascending towards the core of the fabric
};

// All links from parts of one tier to parts of another.
struct LinkTier {
  std::uint32_t from = 0, to = 0;  // indices into TopologyGraph::parts
  LinkKind kind = LinkKind::nvlink;
  std::vector<LinkId> links;  // ascending: node by node, or as the fabric has them
  int bundled = 1;            // cables that a link stands for, at most
  Bandwidth least{}, most{};  // capacity of a link
};

struct TopologyGraph {
  std::vector<PartTier> parts;
  // From the core of the fabric down to the GPUs; both directions follow each other.
  std::vector<LinkTier> links;
};

// Each link of the cluster is in exactly one tier of links.
TopologyGraph topology_graph(const Cluster& cluster);

}  // namespace sim
