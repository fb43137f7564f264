#include "tests/property/support.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "sim/config/reader.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/temporary.hpp"

namespace sim::test {

TemporaryFile::TemporaryFile(const std::string& text, const std::string& extension) {
  static int count = 0;
  path_ = temporary_path(std::to_string(count++) + extension).string();
  std::ofstream{path_} << text;
}

TemporaryFile::~TemporaryFile() {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

std::string flat_cluster_yaml(const FlatCluster& flat) {
  std::ostringstream text;
  text
      << "name: flat\ndevice: "
      << sim::test::source_dir() + "/topologies/devices/h100_sxm.yaml\nnodes: " << flat.nodes
      << "\nnode:\n  kind: pcie\n  gpus: 1\n  pcie: {generation: 5, switches: 1, latency: 500 ns}\n"
         "  sockets: {count: 1}\n  nics: {count: 1, bandwidth: "
      << flat.nic_gbps << " Gbps, latency: " << flat.nic_latency
      << "}\nfabric:\n  kind: flat\n  switch_latency: 0 ns\nnetwork:\n  cpu_vendor: intel\n"
         "  overhead: 0 ns\n  efficiency: 1\nsources: [none]\n";
  return text.str();
}

Cluster flat_cluster(const FlatCluster& flat) {
  const TemporaryFile file{flat_cluster_yaml(flat)};
  return Cluster::load(file.path());
}

std::string switch_node_yaml(int gpus, double nvlink_gb_per_s) {
  std::ostringstream text;
  text << "name: switch-node\ndevice: "
       << sim::test::source_dir() +
              "/topologies/devices/h100_sxm.yaml\nnodes: 1\nnode:\n  kind: nvswitch\n  gpus: "
       << gpus << "\n  nvlink: {links: 1, rate: " << nvlink_gb_per_s
       << " GB/s, usable: " << nvlink_gb_per_s
       << " GB/s, latency: 300 ns}\n"
          "  pcie: {generation: 5, switches: 1, latency: 500 ns}\n"
          "  sockets: {count: 1}\n"
          "  nics: {count: 1, bandwidth: 400 Gbps, latency: 300 ns}\n"
          "fabric: {kind: none}\nnetwork:\n  cpu_vendor: intel\n  overhead: 0 ns\n"
          "sources: [none]\n";
  return text.str();
}

Model equal_layers(const EqualLayers& shape) {
  std::ostringstream text;
  text << "name: equal\nsource: made for a test\nlayer_list:\n  input_elements: " << shape.elements
       << "\n  layers:\n";
  for (int i = 0; i < shape.layers; ++i)
    text << "    - {name: layer" << i << ", parameters: " << shape.parameters
         << ", forward_flops: " << shape.forward_gflop
         << " GFLOP, activation_elements: " << shape.elements
         << ", output_elements: " << shape.elements << "}\n";
  return read_model(Document::parse_yaml(text.str(), "equal_layers"));
}

Layout sample_layout(int data, int pipeline, int micro_batches) {
  Layout layout;
  layout.data_parallel = data;
  layout.pipeline_parallel = pipeline;
  layout.sequence_length = 1;
  layout.global_batch = std::int64_t{data} * micro_batches;
  return layout;
}

}  // namespace sim::test
