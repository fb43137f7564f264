// A cluster file. Beside not crashing: a cluster that is read routes between its first and last
// GPU, over links of its own, or says that there is no path.
#include <cstdint>
#include <string_view>

#include "sim/base/input_error.hpp"
#include "sim/topology/cluster_data.hpp"
#include "sim/topology/paths.hpp"
#include "tests/fuzz/support/require.hpp"

namespace {

using fuzz::require;

// What every pool of a fuzzed file is of.
constexpr std::string_view pool_file = R"(
name: pool
device: any
nodes: 1
node: {kind: pcie, gpus: 1, pcie: {generation: 4, switches: 0, latency: 1 us},
       sockets: {count: 1, bandwidth: 20 GB/s}, nics: {count: 1, bandwidth: 100 Gbps, latency: 1 us}}
fabric: {kind: flat, switch_latency: 1 us}
network: {cpu_vendor: amd, overhead: 1 us}
sources: []
)";

void check(const sim::Cluster::Data& data) {
  const std::uint64_t links = std::uint64_t{data.fabric_base()} + data.fabric.links.size();
  const sim::NodeTemplate& node = data.pools.front().node;
  require(!node.gpus.empty() && links < (std::uint64_t{1} << 32));
  if (data.nodes < 2 || node.nics.empty()) return;
  const std::uint32_t from = data.fabric.switch_of(0, 0);
  const std::uint32_t to = data.fabric.switch_of(data.nodes - 1, 0);
  require(from < data.fabric.switches && to < data.fabric.switches);
  std::vector<sim::Hop> hops;
  if (data.fabric.switches <= 4096 && data.fabric.path(from, to, 0, hops))
    for (const sim::Hop& hop : hops)
      require(hop.link.value < data.fabric.links.size() && hop.share <= sim::whole_share);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  const sim::ClusterFiles files{
      .device = [](const std::string&) { return sim::Device{}; },
      .node = [](const std::string& path, const sim::ImportDefaults&) -> sim::ImportedNode {
        throw sim::InputError({path, 0, 0}, "not read by the fuzzer");
      },
      .cluster =
          [&](const std::string& path) { return sim::Document::parse_yaml(pool_file, path); }};
  try {
    check(sim::read_cluster(sim::Document::parse_yaml(text, "fuzzed.yaml"), std::nullopt, files));
  } catch (const sim::InputError& error) {
    require(!std::string_view{error.what()}.empty());
  }
  return 0;
}
