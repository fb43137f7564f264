#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "cluster_files.hpp"
#include "sim/base/random.hpp"
#include "tests/catch.hpp"

namespace sim {
namespace {

std::vector<std::string> shipped() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator("topologies"))
    if (entry.path().extension() == ".yaml") files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

TEST_CASE("every shipped cluster loads, names its sources and routes between any GPUs",
          "[topology]") {
  const std::vector<std::string> files = shipped();
  CHECK(files.size() >= 12);
  for (const std::string& file : files) {
    CAPTURE(file);
    const Cluster cluster = Cluster::load(file);
    CHECK(file == "topologies/" + cluster.name() + ".yaml");
    CHECK(!cluster.sources().empty());
    CHECK((cluster.network().cpu_vendor == "intel" || cluster.network().cpu_vendor == "amd" ||
           cluster.network().cpu_vendor == "arm"));
    const auto gpus = static_cast<std::uint64_t>(cluster.gpus());
    for (std::uint64_t i = 0; i < 500; ++i) {
      const GpuId a{static_cast<std::uint32_t>(mix64(2 * i) % gpus)};
      const GpuId b{static_cast<std::uint32_t>(mix64(2 * i + 1) % gpus)};
      const Route route = cluster.route(a, b);
      CHECK(route.bandwidth > Bandwidth{});
      if (a == b) continue;
      CHECK(route.latency > Duration{});
      CHECK((route.kind == PathKind::network) == (cluster.node_of(a) != cluster.node_of(b)));
      std::vector<std::uint32_t> links;
      for (const Hop& hop : route.hops) {
        CHECK(hop.share > 0);
        CHECK(hop.share <= 65536);
        links.push_back(hop.link.value);
      }
      std::sort(links.begin(), links.end());
      CHECK(std::adjacent_find(links.begin(), links.end()) == links.end());
    }
  }
}

TEST_CASE("the example of the format page loads", "[topology]") {
  std::ifstream page{"topologies/README.md"};
  std::string text{std::istreambuf_iterator<char>{page}, {}};
  const std::size_t start = text.find("```yaml\n") + 8;
  text = text.substr(start, text.find("```", start) - start);
  const std::string device = "devices/h100_sxm.yaml";
  text.replace(text.find(device), device.size(), device_path());
  const TemporaryFile file{"topology_test_cluster.yaml", text};
  const Cluster cluster = Cluster::load(file.path());
  CHECK(cluster.gpus() == 512);
  CHECK(cluster.measured().size() == 1);
}

TEST_CASE("the number of nodes can be overridden up to 131,072", "[topology]") {
  const Cluster one = Cluster::load("topologies/dgx-h100.yaml", 1);
  CHECK(one.gpus() == 8);
  const Cluster most = Cluster::load("topologies/dgx-h100.yaml", 131'072);
  CHECK(most.gpus() == 1'048'576);
  const Route route = most.route(GpuId{0}, GpuId{1'048'575});
  CHECK(route.hops.size() == 12);
  REQUIRE_THROWS_WITH(Cluster::load("topologies/dgx-h100.yaml", 0),
                      "topologies/dgx-h100.yaml:5:8: error: nodes is 0; allowed: 1 to 131072");
}

TEST_CASE("two loads of a file give the same links and routes", "[topology]") {
  const Cluster a = Cluster::load("topologies/dragonfly-a100.yaml");
  const Cluster b = Cluster::load("topologies/dragonfly-a100.yaml");
  REQUIRE(a.link_count() == b.link_count());
  // Asked in opposite orders: what is kept of earlier searches must not show.
  std::vector<std::string> there;
  std::vector<std::string> back;
  for (std::uint32_t i = 0; i < 200; ++i) {
    there.push_back(names_of(a, a.route(GpuId{i * 29}, GpuId{i * 30 + 5})));
    const std::uint32_t j = 199 - i;
    back.push_back(names_of(b, b.route(GpuId{j * 29}, GpuId{j * 30 + 5})));
  }
  std::reverse(back.begin(), back.end());
  CHECK(there == back);
}

TEST_CASE("a DGX H100 route between nodes: 2.73 us on one leaf, PCIe-limited to 48 GB/s",
          "[topology]") {
  const Cluster cluster = Cluster::load("topologies/dgx-h100.yaml");
  CHECK(cluster.gpus() == 16'384);
  const Route route = cluster.route(GpuId{0}, GpuId{8});
  // 4 PCIe hops of 0.5 us, 2 NICs of 0.3 us, one switch of 0.13 us.
  CHECK(route.latency == std::chrono::nanoseconds{2730});
  CHECK_THAT(route.bandwidth.in_bytes_per_second(), WithinRel(48e9));
}

}  // namespace
}  // namespace sim
