// Collectives on a network with NCCL's tuning for it: crossings, channels, tuners.
#include <filesystem>
#include <fstream>
#include <sstream>

#include "sim/base/input_error.hpp"
#include "sim/collective/nccl_tuning.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/temporary.hpp"
#include "tests/unit/collective/groups.hpp"

using namespace sim;
using namespace collective_test;

namespace {

CollectiveCost cost_of(const Cluster& cluster, int nodes, int per_node, CollectiveKind kind,
                       Bytes bytes, CollectiveChoice choice = {}) {
  choice.use_measured = false;
  return collective_cost(cluster, group_shape(cluster, block(cluster, nodes, per_node)),
                         {.kind = kind, .bytes = bytes}, choice);
}

constexpr auto all_reduce = CollectiveKind::all_reduce;
constexpr auto all_gather = CollectiveKind::all_gather;
constexpr CollectiveChoice ring_ll{.algorithm = Algorithm::ring, .protocol = Protocol::ll};

Cluster changed(const std::string& name, const std::string& from, const std::string& to) {
  std::ifstream in(sim::test::source_dir() + "/topologies/" + name + ".yaml");
  std::stringstream read;
  read << in.rdbuf();
  std::string text = read.str();
  const auto replace = [&](const std::string& old, const std::string& now) {
    REQUIRE(text.find(old) != std::string::npos);
    text.replace(text.find(old), old.size(), now);
  };
  replace(from, to);
  replace("devices/", sim::test::source_dir() + "/topologies/devices/");
  const auto path = test::temporary_path("collective-network.yaml");
  std::ofstream(path) << text;
  Cluster cluster = Cluster::load(path.string(), 4);
  std::filesystem::remove(path);
  return cluster;
}

}  // namespace

TEST_CASE("a ring's last chunk crosses between nodes once per node and turn", "[collective]") {
  // NCCL's LL constants over InfiniBand: 6.6 us, 1 us within (a proxy's pace), 2.7 between.
  const Cluster cluster = load("dgx-h100", 10);
  const auto latency = [&](int nodes, int per_node, CollectiveKind kind) {
    return to_seconds(cost_of(cluster, nodes, per_node, kind, 1024_B, ring_ll).latency) * 1e6;
  };
  CHECK_THAT(latency(2, 8, all_reduce), WithinRel(6.6 + 26 * 1 + 4 * 2.7, 1e-6));
  CHECK_THAT(latency(4, 8, all_reduce), WithinRel(6.6 + 54 * 1 + 8 * 2.7, 1e-6));
  CHECK_THAT(latency(10, 8, all_gather), WithinRel(6.6 + 69 * 1 + 10 * 2.7, 1e-6));
  // One rank per node: every one of the N-1 steps, at the tree's 5 us.
  CHECK_THAT(latency(10, 1, all_gather), WithinRel(6.6 + 9 * 5, 1e-6));
}

TEST_CASE("what a network takes beyond InfiniBand is added to each of its hops", "[collective]") {
  const Cluster plain = load("h200-roce", 2);
  const Cluster slower = changed("h200-roce", "overhead: 3.5 us", "overhead: 5.5 us");
  const CollectiveChoice tree{.algorithm = Algorithm::tree, .protocol = Protocol::ll};
  // Up and down between two nodes, a proxy at both ends.
  CHECK(cost_of(slower, 2, 8, all_reduce, 1024_B, tree).latency ==
        cost_of(plain, 2, 8, all_reduce, 1024_B, tree).latency + 8us);
  const Cluster flush =
      changed("h200-roce", "overhead: 3.5 us", "overhead: 3.5 us\n  simple_overhead: 10 us");
  const CollectiveChoice simple{.algorithm = Algorithm::tree, .protocol = Protocol::simple};
  CHECK(cost_of(flush, 2, 8, all_reduce, 1024_B, tree).latency ==
        cost_of(plain, 2, 8, all_reduce, 1024_B, tree).latency);
  CHECK(cost_of(flush, 2, 8, all_reduce, 1024_B, simple).latency ==
        cost_of(plain, 2, 8, all_reduce, 1024_B, simple).latency + 20us);
}

TEST_CASE("a network's tuner sets the protocol by size", "[collective]") {
  // aws-ofi-nccl nccl_ofi_regions.cpp, p5 with 16 ranks: LL128 trees to 30 MiB, then NVLSTree.
  const Cluster cluster = load("aws-p5", 2);
  for (const Bytes small : {8_B, 65536_B, 4_MiB, 30_MiB}) {
    const CollectiveCost cost = cost_of(cluster, 2, 8, all_reduce, small);
    CHECK(cost.algorithm == Algorithm::tree);
    CHECK(cost.protocol == Protocol::ll128);
  }
  CHECK(cost_of(cluster, 2, 8, all_reduce, 32_MiB).algorithm == Algorithm::in_switch);
  CHECK(cost_of(cluster, 2, 8, all_gather, 65536_B).protocol == Protocol::ll128);
  // Within a node it has no say, and a forced choice stands.
  CHECK(cost_of(cluster, 1, 8, all_reduce, 65536_B).protocol == Protocol::ll);
  CHECK(cost_of(cluster, 2, 8, all_reduce, 65536_B, ring_ll).protocol == Protocol::ll);
  // Only Simple, and LL excluded while NCCL chooses between the others.
  CHECK(cost_of(load("aws-p4d", 2), 2, 8, all_reduce, 1024_B).protocol == Protocol::simple);
  CHECK(cost_of(load("gcp-a4", 2), 2, 8, all_gather, 1024_B).protocol == Protocol::ll128);
  CHECK_THROWS_AS(changed("gcp-a4", "tuner: {ll: 0 B}", "tuner: {ll: 2 KiB, ll128: 1 KiB}"),
                  InputError);
}

TEST_CASE("NCCL reckons with NVLink's speed for trees over two nodes", "[collective]") {
  const auto group_of = [](const char* name, int nodes) {
    const Cluster cluster = load(name, 4);
    return nccl_group(cluster, group_shape(cluster, block(cluster, nodes, 8)));
  };
  // src/graph/search.cc: raised from 24 while below 48 and within the 240 GB/s of NVLink.
  CHECK(group_of("dgx-a100-80", 2).tree_bw == 30);
  CHECK(group_of("dgx-a100-80", 4).tree_bw == 24);
  CHECK(group_of("aws-p4d", 2).tree_bw == 24);
  CHECK(group_of("oci-a100", 2).channels == 16);  // NICs of a GPU are channels of their own,
  CHECK(group_of("oci-a100", 2).tree_bw == 15);
  CHECK(group_of("aws-p5", 2).channels == 8);  // unless the plugin merges them
  // So large all-reduces are trees where that beats the NICs' ring: 16 x 100 Gb/s, not 8 x 200.
  const Cluster sixteen = load("oci-a100", 2);
  CHECK(cost_of(sixteen, 2, 8, all_reduce, 1_GiB).algorithm == Algorithm::tree);
  CHECK(cost_of(load("dgx-a100-80", 2), 2, 8, all_reduce, 1_GiB).algorithm == Algorithm::ring);
}

TEST_CASE("NVLS takes part from five ranks on, and as a tree before 2.28", "[collective]") {
  const Cluster cluster = load("dgx-h200", 4);
  CHECK(cost_of(cluster, 1, 4, all_reduce, 1_GiB).algorithm == Algorithm::ring);
  CHECK(cost_of(cluster, 1, 5, all_reduce, 1_GiB).algorithm == Algorithm::in_switch);
  CHECK(cost_of(cluster, 4, 8, all_reduce, 16_GiB).algorithm == Algorithm::ring);
  CHECK(cost_of(cluster, 4, 8, all_reduce, 16_GiB, {.nccl = 226}).algorithm ==
        Algorithm::in_switch);
  // NVLink across trays: none between racks.
  const Cluster racks = load("gb200-nvl72", 2);
  CHECK(cost_of(racks, 2, 64, all_reduce, 1_MiB).algorithm == Algorithm::tree);
}

TEST_CASE("messages have NCCL's channels", "[collective]") {
  const auto channels = [](int ranks, int nodes, double bytes) {
    return message_channels({.ranks = ranks, .nodes = nodes}, bytes);
  };
  CHECK(channels(8, 1, 32e6) == 4);             // 32 over 8 ranks
  CHECK(channels(8, 1, 128 * 1048576.0) == 8);  // parts of 16 MiB
  CHECK(channels(8, 1, 1e9) == 32);
  CHECK(channels(2, 1, 1e3) == 16);
  // Between nodes, 400 Gb/s a GPU: 4, halved until all peers go at once.
  const auto across = [](int ranks, int blocks, double nic_bw, int version) {
    return message_channels(
        {.ranks = ranks, .nodes = 2, .nic_bw = nic_bw, .blocks = blocks, .version = version}, 1e9);
  };
  CHECK(across(16, 16, 48, 229) == 4);
  CHECK(across(32, 16, 48, 229) == 4);
  CHECK(across(33, 16, 48, 229) == 2);
  CHECK(across(64, 16, 48, 229) == 2);
  CHECK(across(65, 16, 48, 229) == 1);
  CHECK(across(10, 4, 48, 230) == 2);
  CHECK(across(2, 4, 24, 230) == 2);
  CHECK(across(2, 4, 12, 230) == 1);
  CHECK(across(2, 8, 96, 230) == 8);
  // Before 2.29 two; from 2.20 on one where two of each rank exceed four times the channels.
  CHECK(across(64, 32, 48, 228) == 2);
  CHECK(across(65, 32, 48, 228) == 1);
  CHECK(across(65, 32, 48, 219) == 2);
}

TEST_CASE("a ring between nodes is held back by its thread blocks", "[collective]") {
  const Cluster cluster = load("dgx-h100", 10);
  const double traffic = 79.0 / 80 * 17179869184.0;
  const CollectiveChoice ring{.algorithm = Algorithm::ring, .protocol = Protocol::simple};
  CHECK_THAT(to_seconds(cost_of(cluster, 10, 8, all_gather, 16_GiB, ring).transfer),
             WithinRel(traffic / (16 * 20.3e9), 1e-6));
  const double bus =
      group_shape(cluster, block(cluster, 10, 8)).ring_bandwidth.in_bytes_per_second();
  CHECK(bus > 16 * 20.3e9);
  CollectiveChoice one = ring;
  one.most_blocks = 1;  // NCCL_MAX_CTAS
  CHECK_THAT(to_seconds(cost_of(cluster, 10, 8, all_gather, 16_GiB, one).transfer),
             WithinRel(traffic / 20.3e9, 1e-6));
  CHECK(to_seconds(cost_of(cluster, 1, 8, CollectiveKind::all_to_all, 1_GiB, {.most_blocks = 1})
                       .transfer) > 7.0 / 8 * 1073741824 / 20.3e9);
  CollectiveChoice more = ring;
  more.least_blocks = 24;  // NCCL_MIN_CTAS
  CHECK_THAT(to_seconds(cost_of(cluster, 10, 8, all_gather, 16_GiB, more).transfer),
             WithinRel(traffic / bus, 1e-6));
}
