// Curves and cluster files.
#include "sim/calibration/cluster_file.hpp"

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"

using namespace sim;
using namespace std::chrono_literals;

namespace {

MeasuredCollective point(const std::string& kind, int ranks, std::int64_t bytes, Duration time) {
  return {.collective = kind,
          .ranks = ranks,
          .nodes = 1,
          .bytes = Bytes{bytes},
          .time = time,
          .algorithm = "",
          .samples = 1,
          .source = "made up"};
}

std::string folder() {
  const auto path = std::filesystem::temp_directory_path() / "stepcast-calibration-test";
  std::filesystem::create_directories(path);
  return path.string();
}

}  // namespace

TEST_CASE("a curve takes the median of each size, ascending", "[calibration]") {
  const auto curves =
      measured_curves({point("all_reduce", 4, 4096, 30us), point("all_reduce", 4, 1024, 10us),
                       point("all_reduce", 4, 4096, 90us), point("all_reduce", 4, 4096, 32us),
                       point("all_reduce", 2, 1024, 5us)});
  REQUIRE(curves.size() == 2);
  CHECK(curves[0].ranks == 2);
  REQUIRE(curves[1].points.size() == 2);
  CHECK(curves[1].points[0].size == Bytes{1024});
  CHECK(curves[1].points[1].time == 32us);
}

TEST_CASE("latency and bandwidth of messages come out of collectives", "[calibration]") {
  // Ring all-reduce of p ranks: 2(p-1) alpha + 2(p-1)/p n beta, alpha 4 us, 1/beta 2 GB/s; one
  // outlier.
  std::vector<MeasuredCollective> points;
  for (const int p : {2, 4})
    for (std::int64_t n = 1024; n <= 1 << 24; n *= 4)
      points.push_back(
          point("all_reduce", p, n,
                duration_from_seconds(2.0 * (p - 1) * 4e-6 +
                                      2.0 * (p - 1) / p * static_cast<double>(n) / 2e9)));
  points[3].time *= 3;
  const LinkFit fit = fit_links(points);
  CHECK_THAT(to_seconds(fit.latency), WithinRel(4e-6, 0.02));
  CHECK_THAT(fit.bandwidth.in_bytes_per_second(), WithinRel(2e9, 0.02));
}

TEST_CASE("a cluster file keeps its base's node and fabric, and holds the curves",
          "[calibration]") {
  const std::string base = sim::test::source_dir() + "/topologies/dgx-h100.yaml";
  const ClusterFile file{.name = "mine: \"x\"",
                         .device = "",
                         .curves = measured_curves({point("all_reduce", 8, 1 << 20, 50us)}),
                         .sources = {"measured here"}};
  const std::string path = folder() + "/cluster.yaml";
  std::ofstream{path} << cluster_yaml(base, file, folder());
  const Cluster read = Cluster::load(path);
  const Cluster original = Cluster::load(base);
  CHECK(read.name() == "mine: \"x\"");
  CHECK(read.gpus() == original.gpus());
  CHECK(read.link_count() == original.link_count());
  CHECK(read.device().name == original.device().name);
  REQUIRE(!read.measured().empty());
  CHECK(read.measured()[0].collective == "all_reduce");
  CHECK(read.measured()[0].points[0].time == 50us);
}

TEST_CASE("curves that are of no group of the cluster are refused by name", "[calibration]") {
  const auto shipped = [](const char* name) {
    return Cluster::load(sim::test::source_dir() + "/topologies/" + name + ".yaml");
  };
  const auto curves =
      measured_curves({point("all_reduce", 8, 4096, 30us), point("all_gather", 72, 4096, 30us)});
  CHECK_THROWS_WITH(
      require_routes(shipped("dgx-h100"), curves, "dgx-h100"),
      "dgx-h100: error: 1 of 2 curves fits no route of dgx-h100 (8 GPUs per node): all_gather of "
      "72 "
      "ranks on 1 node: needs 9 nodes or more (made up); give the --cluster that was measured, its "
      "--nodes, or leave the log out");
  CHECK_NOTHROW(require_routes(shipped("gb200-nvl72"), curves, "gb200-nvl72"));
  CHECK(other_device(shipped("gb200-nvl72"), "NVIDIA Graphics Device").empty());
  CHECK(other_device(shipped("dgx-h100"), "NVIDIA H100 80GB HBM3").empty());
  CHECK(!other_device(shipped("dgx-h200"), "NVIDIA H100 80GB HBM3").empty());
}
