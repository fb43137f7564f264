// Cluster files written by a test: a base description with parts replaced.
#pragma once

#include <cstdio>
#include <fstream>
#include <string>

#include "sim/topology/cluster_data.hpp"
#include "tests/support/source_dir.hpp"

namespace sim {

inline std::string device_path() {
  return sim::test::source_dir() + "/topologies/devices/h100_sxm.yaml";
}

// A file of the working folder that goes when the test ends.
class TemporaryFile {
 public:
  TemporaryFile(std::string name, const std::string& text) : path_{std::move(name)} {
    std::ofstream{path_} << text;
  }
  ~TemporaryFile() { std::remove(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct ClusterText {
  int nodes = 8;
  std::string node = R"(node:
  kind: nvswitch
  gpus: 4
  nvlink: {links: 18, rate: 25 GB/s, usable: 20 GB/s, latency: 300 ns}
  pcie: {generation: 5, switches: 4, latency: 500 ns}
  sockets: {count: 2, bandwidth: 22 GB/s}
  nics: {count: 4, bandwidth: 400 Gbps, latency: 300 ns}
)";
  std::string fabric = R"(fabric:
  kind: flat
  switch_latency: 100 ns
)";
  std::string more;

  std::string text() const {
    return "name: test\ndevice: " + device_path() + "\nnodes: " + std::to_string(nodes) + "\n" +
           node + fabric + "network:\n  cpu_vendor: intel\n  overhead: 1 us\nsources: [test]\n" +
           more;
  }
  Cluster load() const {
    const TemporaryFile file{"topology_test_cluster.yaml", text()};
    return Cluster::load(file.path());
  }
};

inline GpuId gpu(const Cluster& cluster, int node, int local) {
  return GpuId{static_cast<std::uint32_t>(node * cluster.gpus_per_node() + local)};
}

inline std::string names_of(const Cluster& cluster, const Route& route) {
  std::string names;
  for (const Hop& hop : route.hops)
    names += (names.empty() ? "" : "; ") + cluster.link_name(hop.link);
  return names;
}

}  // namespace sim
