// Measured curves of machines with what-ifs.
#include "sim/collective/load_cluster.hpp"

#include <fstream>

#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/temporary.hpp"
#include "tests/unit/collective/groups.hpp"

using namespace sim;
using namespace collective_test;

namespace {

Cluster changed(const std::string& name, int nodes, std::vector<Change> cluster,
                std::vector<Change> device = {}) {
  return load_cluster(sim::test::source_dir() + "/topologies/" + name + ".yaml", nodes,
                      {std::move(cluster), std::move(device)});
}

// The least and the largest ratio of the times of all points.
std::pair<double, double> ratios(const Cluster& from, const Cluster& to) {
  REQUIRE(from.measured().size() == to.measured().size());
  std::pair<double, double> span{1e300, 0};
  for (std::size_t i = 0; i < from.measured().size(); ++i)
    for (std::size_t k = 0; k < from.measured()[i].points.size(); ++k) {
      const double ratio = to_seconds(to.measured()[i].points[k].time) /
                           to_seconds(from.measured()[i].points[k].time);
      span = {std::min(span.first, ratio), std::max(span.second, ratio)};
    }
  return span;
}

}  // namespace

TEST_CASE("a change of nothing changes no measured curve", "[collective]") {
  for (const char* name : {"dgx-h100", "aws-p5", "gcp-a3-mega", "dgx-a100-80"}) {
    CAPTURE(name);
    const Cluster before = load(name, 4);
    REQUIRE_FALSE(before.measured().empty());
    for (const char* key : {"node.nvlink.usable", "node.nvlink.latency", "node.pcie.latency",
                            "node.nics.bandwidth", "network.overhead"}) {
      const auto [least, most] = ratios(before, changed(name, 4, {{key, "x1"}}));
      CHECK(least == 1);
      CHECK(most == 1);
    }
  }
}

TEST_CASE("a change of the links scales the curves by the formula's ratio", "[collective]") {
  const Cluster before = load("dgx-h100", 2);
  const Cluster after = changed("dgx-h100", 2, {{"node.nvlink.usable", "x0.5"}});
  const GroupShape old_shape = group_shape(before, block(before, 1, 8));
  const GroupShape new_shape = group_shape(after, block(after, 1, 8));
  const auto time = [](const Cluster& cluster, const GroupShape& shape, Bytes size, bool measured) {
    return seconds(collective_cost(cluster, shape, {.bytes = size}, {.use_measured = measured}));
  };
  for (const Bytes size : {1_MiB, 64_MiB, 1_GiB}) {
    const double formula =
        time(after, new_shape, size, false) / time(before, old_shape, size, false);
    CHECK_THAT(time(after, new_shape, size, true) / time(before, old_shape, size, true),
               WithinRel(formula, 1e-6));
  }
  CHECK(time(after, new_shape, 1_GiB, true) > 1.8 * time(before, old_shape, 1_GiB, true));
  CHECK(after.sources().back().find("4 measured curves carried over, scaled") == 0);
}

TEST_CASE("curves between nodes follow the network, those within a node do not", "[collective]") {
  const auto [least, most] = ratios(
      load("aws-p5", 4),
      changed("aws-p5", 4, {{"node.nics.bandwidth", "x0.5"}, {"fabric.per_node_limit", "x0.5"}}));
  CHECK(least >= 1);
  CHECK(most > 1.2);
  const auto [first, last] =
      ratios(load("dgx-h100", 4), changed("dgx-h100", 4, {{"node.nics.bandwidth", "x0.5"}}));
  CHECK(first == 1);
  CHECK(last == 1);
  // Traits of the device besides its links do not touch them either.
  const auto [low, high] =
      ratios(load("dgx-h100", 4), changed("dgx-h100", 4, {}, {{"memory_bandwidth", "x0.5"}}));
  CHECK(low == 1);
  CHECK(high == 1);
}

TEST_CASE("a curve of a group that the changed machine has not is left out, and it is said",
          "[collective]") {
  const Cluster after = changed("dgx-h100", 2, {{"node.gpus", "4"}});
  CHECK(after.measured().empty());
  CHECK(after.sources().back() ==
        "0 measured curves carried over, as they are; 4 left out, of groups that one of the "
        "machines has not");
}

TEST_CASE("a machine without curves says nothing of them", "[collective]") {
  const Cluster after = changed("dgx-h200", 2, {{"node.nics.bandwidth", "x0.5"}});
  CHECK(after.sources().back() == "what if node.nics.bandwidth were x0.5");
}

TEST_CASE("measured messages are carried over, too", "[collective]") {
  const std::filesystem::path path = test::temporary_path("messages.yaml");
  std::ifstream shipped{sim::test::source_dir() + "/topologies/dgx-h200.yaml"};
  std::string text{std::istreambuf_iterator<char>{shipped}, {}};
  const std::string device = "devices/h200_sxm.yaml";
  text.replace(text.find(device), device.size(),
               sim::test::source_dir() + "/topologies/devices/h200_sxm.yaml");
  std::ofstream{path} << text
                      << "measured:\n  - {collective: send_receive, ranks: 2, nodes: 1, "
                         "source: here, points: [[1 MiB, 20 us], [1 GiB, 3 ms]]}\n";
  const Cluster before = Cluster::load(path.string(), 1);
  const auto [same, also] =
      ratios(before, load_cluster(path.string(), 1, {{{"node.nvlink.usable", "x1"}}, {}}));
  CHECK(same == 1);
  CHECK(also == 1);
  const auto [least, most] =
      ratios(before, load_cluster(path.string(), 1, {{{"node.nvlink.usable", "x0.5"}}, {}}));
  CHECK(least > 1);
  CHECK(most > 1.5);
  std::filesystem::remove(path);
}
