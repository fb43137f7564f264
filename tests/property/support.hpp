// Parts that the property tests share: clusters and models made to measure.
#pragma once

#include <string>

#include "sim/layout/layout.hpp"
#include "sim/model/model.hpp"
#include "sim/topology/cluster.hpp"

namespace sim::test {

// A file in the temporary folder, removed when it goes out of scope.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text, const std::string& extension = ".yaml");
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// `nodes` nodes of one H100 with one NIC each, on a flat network: every message between two ranks
// crosses the same kinds of links, and nobody shares any.
struct FlatCluster {
  int nodes = 2;
  double nic_gbps = 100;
  std::string nic_latency = "1 us";
};
std::string flat_cluster_yaml(const FlatCluster& flat);
Cluster flat_cluster(const FlatCluster& flat);

// One node of `gpus` H100 on NVSwitches.
std::string switch_node_yaml(int gpus, double nvlink_gb_per_s);

// A layer list of equal layers: no embedding, no head.
struct EqualLayers {
  int layers = 4;
  std::int64_t parameters = 1'000'000;  // of each
  double forward_gflop = 1;             // of each, per sample
  std::int64_t elements = 1024;         // handed on, per sample
};
Model equal_layers(const EqualLayers& shape);

// A layout for a layer list on tp 1.
Layout sample_layout(int data, int pipeline, int micro_batches);

}  // namespace sim::test
