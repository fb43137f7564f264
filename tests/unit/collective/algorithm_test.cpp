#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/temporary.hpp"
#include "tests/unit/collective/groups.hpp"

using namespace sim;
using namespace collective_test;

namespace {

CollectiveCost ask(const Cluster& cluster, int nodes, int per_node, CollectiveKind kind,
                   Algorithm algorithm, Bytes bytes, int shards = 1) {
  const GroupShape shape = group_shape(cluster, block(cluster, nodes, per_node));
  return collective_cost(cluster, shape, {.kind = kind, .bytes = bytes},
                         {.algorithm = algorithm,
                          .protocol = Protocol::simple,
                          .server_shards = shards,
                          .use_measured = false});
}
constexpr auto all_reduce = CollectiveKind::all_reduce;

}  // namespace

TEST_CASE("a ring all-reduce of 2 GB over 100 Gb/s takes 0.32 s for many ranks", "[collective]") {
  // 2 (p-1)/p n / B -> 2 * 2 GB / 12.5 GB/s = 0.32 s, the textbook number; here over a NIC whose
  // payload share is below 1 and with 2 (p-1) latencies, so a little more.
  const Cluster cluster = load("cloud-v100-100g", 32);
  const CollectiveCost cost =
      ask(cluster, 32, 1, all_reduce, Algorithm::ring, Bytes{2'000'000'000});
  const GroupShape shape = group_shape(cluster, block(cluster, 32, 1));
  CHECK_THAT(to_seconds(cost.transfer),
             WithinRel(2 * 31.0 / 32 * 2e9 / shape.ring_bandwidth.in_bytes_per_second(), 1e-9));
  // The same without the headers of that cloud.
  const double line =
      to_seconds(cost.transfer) * shape.ring_bandwidth.in_bytes_per_second() / 12.5e9;
  CHECK_THAT(line, WithinRel(0.32, 0.04));
}

TEST_CASE("ring: transfer is bytes per edge over the bus bandwidth", "[collective]") {
  const Cluster cluster = load("dgx-h100", 4);
  const double n = 1e9;
  const double bus = 370.8e9 * 0.985;  // what a ring reaches of Hopper's NVLink
  const auto transfer = [&](CollectiveKind kind) {
    return to_seconds(ask(cluster, 1, 8, kind, Algorithm::ring, Bytes{1'000'000'000}).transfer);
  };
  CHECK_THAT(transfer(all_reduce), WithinRel(2 * 7.0 / 8 * n / bus, 1e-6));
  CHECK_THAT(transfer(CollectiveKind::reduce_scatter), WithinRel(7.0 / 8 * n / bus, 1e-6));
  CHECK_THAT(transfer(CollectiveKind::all_gather), WithinRel(7.0 / 8 * n / bus, 1e-6));
  // A chain of 8 in 16 chunks for each of its 6 inner hops: n/B (1 + 6/96).
  CHECK_THAT(transfer(CollectiveKind::broadcast), WithinRel(n / bus * (1 + 6.0 / 96), 1e-6));
  // Latency, Simple on NVLink: 8.4 us and 3.4 us for each of 2 * 7 steps.
  CHECK(ask(cluster, 1, 8, all_reduce, Algorithm::ring, 1_MiB).latency == 56us);
}

TEST_CASE("tree: latency grows with the logarithm of the nodes, traffic does not", "[collective]") {
  const Cluster cluster = load("dgx-h100", 64);
  const auto ask_tree = [&](int nodes) {
    return ask(cluster, nodes, 1, all_reduce, Algorithm::tree, 1_GiB);
  };
  const Duration level = ask_tree(8).latency - ask_tree(4).latency;
  CHECK(level == ask_tree(16).latency - ask_tree(8).latency);
  CHECK(level >= 2 * Duration{14us});
  // T + 2 sqrt(0.65 L T), T = 2n / B (1 + (D - 1/2) / K) with K = 128 chunks at most.
  const double bus =
      group_shape(cluster, block(cluster, 8, 1)).inter_bandwidth.in_bytes_per_second();
  const double streamed = 2 * 1073741824.0 / bus * (1 + 2.5 / 128);
  const double hops = to_seconds(ask_tree(8).latency) - 8.4e-6;
  CHECK_THAT(to_seconds(ask_tree(8).transfer),
             WithinRel(streamed + 2 * std::sqrt(0.65 * hops * streamed), 1e-6));
}

TEST_CASE("halving-doubling: logarithmic latency, the bytes of a ring", "[collective]") {
  const Cluster cluster = load("dgx-h100", 16);
  const CollectiveCost cost = ask(cluster, 16, 1, all_reduce, Algorithm::halving_doubling, 1_GiB);
  const CollectiveCost ring = ask(cluster, 16, 1, all_reduce, Algorithm::ring, 1_GiB);
  CHECK(cost.rounds == 2 * 4);
  CHECK_THAT(to_seconds(cost.transfer), WithinRel(to_seconds(ring.transfer), 1e-3));
  CHECK(cost.latency < ring.latency);
  // 6 ranks: 4 exchange n (1/2 + 1/4) twice, and two fold: 2n more.
  const CollectiveCost six = ask(cluster, 1, 6, all_reduce, Algorithm::halving_doubling, 1_GiB);
  CHECK(six.rounds == 2 * 2 + 2);
  CHECK_THAT(to_seconds(six.transfer), WithinRel(3.5 * 1073741824 / 370.8e9, 1e-6));
  REQUIRE_THROWS_WITH(
      ask(cluster, 1, 6, CollectiveKind::all_gather, Algorithm::halving_doubling, 1_MiB),
      "collective algorithm halving_doubling cannot do all_gather here: folding ranks needs a "
      "number that is a power of two");
}

TEST_CASE("hierarchical: the sum of its three phases", "[collective]") {
  const Cluster cluster = load("dgx-h100", 4);
  const GroupShape shape = group_shape(cluster, block(cluster, 4, 8));
  const double n = 1e9;
  const double inside = 2 * 7.0 / 8 * n / shape.intra_bandwidth.in_bytes_per_second();
  const double outside = 2 * 3.0 / 4 * n / shape.inter_bandwidth.in_bytes_per_second();
  const CollectiveCost cost =
      ask(cluster, 4, 8, all_reduce, Algorithm::hierarchical, Bytes{1'000'000'000});
  CHECK_THAT(to_seconds(cost.transfer), WithinRel(inside + outside, 1e-6));
  const CollectiveCost half = ask(cluster, 4, 8, CollectiveKind::reduce_scatter,
                                  Algorithm::hierarchical, Bytes{1'000'000'000});
  CHECK_THAT(to_seconds(half.transfer), WithinRel((inside + outside) / 2, 1e-6));
  REQUIRE_THROWS_WITH(
      ask(cluster, 4, 8, CollectiveKind::broadcast, Algorithm::hierarchical, 1_MiB),
      "collective algorithm hierarchical cannot do broadcast here: only reductions and gathers "
      "split over rails");
}

TEST_CASE("in-switch: n (1 + 1/g) through each port, and a hand-over of chunks", "[collective]") {
  const Cluster cluster = load("dgx-h100", 4);
  const CollectiveCost cost =
      ask(cluster, 1, 8, all_reduce, Algorithm::in_switch, Bytes{1'000'000'000});
  const double ports = 1e9 * (1 + 1.0 / 8) / 370.8e9 / 0.85;
  CHECK_THAT(to_seconds(cost.transfer), WithinRel(ports + 2 * std::sqrt(6e-6 * ports), 1e-6));
  CHECK(cost.latency == 25us);
  const Cluster old = load("dgx-a100-80", 4);
  REQUIRE_THROWS_WITH(ask(old, 1, 8, all_reduce, Algorithm::in_switch, 1_MiB),
                      "collective algorithm in_switch cannot do all_reduce here: the cluster's "
                      "nodes have no NVLink SHARP (network traits: nvls)");
  REQUIRE_THROWS_WITH(ask(cluster, 4, 1, all_reduce, Algorithm::in_switch, 1_MiB),
                      "collective algorithm in_switch cannot do all_reduce here: the fabric does "
                      "not reduce (network traits: sharp)");
}

TEST_CASE("a fabric that reduces carries n once", "[collective]") {
  std::ifstream in(sim::test::source_dir() + "/topologies/dgx-h100.yaml");
  std::stringstream read;
  read << in.rdbuf();
  std::string text = read.str();
  const auto replace = [&](const std::string& from, const std::string& to) {
    REQUIRE(text.find(from) != std::string::npos);
    text.replace(text.find(from), from.size(), to);
  };
  replace("sharp: false", "sharp: true");
  replace("devices/", sim::test::source_dir() + "/topologies/devices/");
  const auto path = test::temporary_path("collective-sharp.yaml");
  std::ofstream(path) << text;
  const Cluster cluster = Cluster::load(path.string(), 16);
  std::filesystem::remove(path);
  const double bus =
      group_shape(cluster, block(cluster, 16, 1)).inter_bandwidth.in_bytes_per_second();
  const CollectiveCost cost =
      ask(cluster, 16, 1, all_reduce, Algorithm::in_switch, Bytes{4'000'000'000});
  const double wire = 4e9 / bus;
  CHECK_THAT(to_seconds(cost.transfer), WithinRel(wire + 2 * std::sqrt(6e-6 * wire), 1e-6));
  // Twice as many nodes cost no more latency, and it beats a ring's two passes.
  CHECK(cost.latency == ask(cluster, 8, 1, all_reduce, Algorithm::in_switch, 1_MiB).latency);
  CHECK(seconds(cost) <
        0.6 * seconds(ask(cluster, 16, 1, all_reduce, Algorithm::ring, Bytes{4'000'000'000})));
  CHECK_NOTHROW(ask(cluster, 4, 8, CollectiveKind::all_gather, Algorithm::in_switch, 1_GiB));
}

TEST_CASE("parameter server: the NIC of a server takes n/S from every other worker",
          "[collective]") {
  const Cluster cluster = load("dgx-h100", 16);
  const double nic =
      group_shape(cluster, block(cluster, 16, 1)).inter_bandwidth.in_bytes_per_second();
  for (const int shards : {1, 2, 4, 15, 16}) {
    const CollectiveCost cost =
        ask(cluster, 16, 1, all_reduce, Algorithm::parameter_server, Bytes{1'600'000'000}, shards);
    // In and out: (p-1) n/S at a server; never less than the n that a plain worker sends.
    const double push = std::max(15.0 / shards, shards == 16 ? 0.0 : 1.0) * 1.6e9 / nic;
    CAPTURE(shards);
    CHECK_THAT(to_seconds(cost.transfer), WithinRel(2 * push, 1e-6));
  }
  REQUIRE_THROWS_WITH(
      ask(cluster, 2, 1, all_reduce, Algorithm::parameter_server, 1_MiB, 3),
      "collective algorithm parameter_server cannot do all_reduce here: the number of shards must "
      "be 1 to the group's ranks");
}

TEST_CASE("all-to-all: inside and outside at once, the slower counts", "[collective]") {
  const Cluster cluster = load("dgx-h100", 4);
  const GroupShape shape = group_shape(cluster, block(cluster, 4, 8));
  const CollectiveCost cost =
      ask(cluster, 4, 8, CollectiveKind::all_to_all, Algorithm::direct, Bytes{320'000'000});
  const double outside = 24 * 10e6 * 8 / shape.inter_bandwidth.in_bytes_per_second();
  // 93% of the NICs, and rounds of peers that hand over in 2.2 us.
  const double streamed = outside / 0.93;
  CHECK_THAT(to_seconds(cost.transfer),
             WithinRel(streamed + 2 * std::sqrt(2.2e-6 * streamed), 1e-6));
}

TEST_CASE("a group of one and an empty buffer cost nothing", "[collective]") {
  const Cluster cluster = load("dgx-h100", 2);
  for (const auto kind : {all_reduce, CollectiveKind::broadcast, CollectiveKind::all_to_all,
                          CollectiveKind::barrier}) {
    const GroupShape one = group_shape(cluster, block(cluster, 1, 1));
    CHECK(seconds(collective_cost(cluster, one, {.kind = kind, .bytes = 1_GiB}, {})) == 0);
  }
  const GroupShape two = group_shape(cluster, block(cluster, 1, 2));
  CHECK(seconds(collective_cost(cluster, two, {.bytes = Bytes{0}}, {})) == 0);
  CHECK(collective_pattern(cluster, block(cluster, 1, 1), all_reduce, Algorithm::ring, 1).empty());
}

TEST_CASE("a barrier is the all-reduce of an element", "[collective]") {
  const Cluster cluster = load("dgx-h100", 4);
  const GroupShape shape = group_shape(cluster, block(cluster, 4, 8));
  const CollectiveChoice formula{.use_measured = false};
  CHECK(collective_cost(cluster, shape, {.kind = CollectiveKind::barrier}, formula).latency ==
        collective_cost(cluster, shape, {.bytes = 4_B}, formula).latency);
}

TEST_CASE("a message takes a hop and its bytes over the route", "[collective]") {
  const Cluster cluster = load("dgx-h100", 2);
  const CollectiveCost near = transfer_cost(cluster, cluster.route({0}, {1}), Bytes{370'800'000});
  // 16 channels pass on 324.8 of 370.8 GB/s; a part above 16 MiB would have more of them.
  const CollectiveCost pair = transfer_cost(cluster, cluster.route({0}, {1}), Bytes{200'000'000});
  CHECK_THAT(to_seconds(pair.transfer), WithinRel(200e6 / (16 * 20.3e9), 1e-6));
  CHECK_THAT(to_seconds(near.transfer), WithinRel(1e-3 / 0.965, 1e-6));
  CHECK(near.latency == 11800ns);  // 8.4 us and one NVLink hop of 3.4 us
  CHECK(near.channels == 4);
  const CollectiveCost far = transfer_cost(cluster, cluster.route({0}, {8}), 1_MiB);
  CHECK(far.latency > near.latency);
  CHECK(far.rate < near.rate);
  CHECK(transfer_cost(cluster, cluster.route({0}, {0}), 1_MiB).transfer == Duration{});
}

TEST_CASE("bus bandwidth factors are those of nccl-tests", "[collective]") {
  CHECK(bus_factor(all_reduce, 8) == 1.75);
  CHECK(bus_factor(CollectiveKind::reduce_scatter, 8) == 0.875);
  CHECK(bus_factor(CollectiveKind::all_to_all, 4) == 0.75);
  CHECK(bus_factor(CollectiveKind::broadcast, 4) == 1);
}
