// The section `transport` of a cluster file, and what it makes of a route. The formulas are held
// against the protocol in tests/property/packet_loss_test.cpp.
#include "sim/topology/transport.hpp"

#include "cluster_files.hpp"
#include "sim/base/input_error.hpp"
#include "sim/topology/cluster_data.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"

namespace sim {
namespace {

Cluster h100_with(const std::vector<Change>& changes, int nodes = 64) {
  return Cluster::load(test::source_dir() + "/topologies/dgx-h100.yaml", nodes,
                       {.cluster = changes, .device = {}});
}

PathQuality to_next_node(const Cluster& cluster) {
  return path_quality(cluster, cluster.route(GpuId{0}, GpuId{8}));
}

TEST_CASE("a way loses what each of its links loses", "[topology][transport]") {
  // GPU 0 of neighbours in one rail: out of a NIC, into a NIC, no link between switches.
  const Cluster near = h100_with({{"transport.loss", "0.01"}});
  CHECK_THAT(to_next_node(near).loss, WithinRel(1 - 0.99 * 0.99, 1e-12));
  // The last of 64 nodes is behind a spine: two links more.
  const PathQuality far = farthest_path(near);
  CHECK_THAT(far.loss, WithinRel(1 - 0.99 * 0.99 * 0.99 * 0.99, 1e-12));
  CHECK(far.sends > to_next_node(near).sends);
  const Cluster calm = h100_with({{"transport.loss", "0.01"}, {"transport.fabric_loss", "0"}});
  CHECK_THAT(farthest_path(calm).loss, WithinRel(1 - 0.99 * 0.99, 1e-12));
  const PathQuality within = path_quality(near, near.route(GpuId{0}, GpuId{1}));
  CHECK(within.loss == 0);
  CHECK(within.sends == 1);
}

TEST_CASE("go-back-N sends again what is under way", "[topology][transport]") {
  // 50 GB/s for 8.192 us are 100 packets of 4 KiB; lost once in a hundred times, each loss costs
  // 101.
  const std::vector<Change> base{{"transport.loss", "0.01"},
                                 {"transport.fabric_loss", "0"},
                                 {"transport.round_trip", "8.192 us"}};
  const double again = to_next_node(h100_with(base)).loss / (0.99 * 0.99);
  CHECK_THAT(to_next_node(h100_with(base)).sends, WithinRel(1 + 101 * again, 1e-9));
  const auto with = [&](const char* key, const char* value) {
    std::vector<Change> changes = base;
    changes.push_back({key, value});
    return to_next_node(h100_with(changes));
  };
  CHECK_THAT(with("transport.recovery", "selective_repeat").sends, WithinRel(1 + again, 1e-9));
  CHECK_THAT(with("transport.mtu", "1024 B").sends, WithinRel(1 + 401 * again, 1e-9));
  // A window of 10 packets: 40 KiB in 8.192 us.
  const PathQuality narrow = with("transport.window", "40 KiB");
  CHECK_THAT(narrow.sends, WithinRel(1 + 11 * again, 1e-9));
  CHECK_THAT(narrow.most.in_bytes_per_second(), WithinRel(5e9, 1e-9));
}

TEST_CASE("a network without the section is ideal", "[topology][transport]") {
  const Cluster cluster = h100_with({});
  CHECK_FALSE(transport_of(cluster).limits());
  CHECK(to_next_node(cluster).sends == 1);
  CHECK(to_next_node(cluster).most == Bandwidth{});
  CHECK(transport_of(cluster).timeout == Duration{4'096'000} * (1 << 20));
}

TEST_CASE("timeouts of a collective: none without loss, all of them with certain loss",
          "[topology][transport]") {
  CHECK(expected_timeouts(0, 1e6, 7) == 0);
  CHECK_THAT(expected_timeouts(0.25, 1, 1000), WithinRel(0.25 / 0.75, 1e-12));
  CHECK_THAT(expected_timeouts(1e-9, 1000, 7), WithinRel(1e-6, 1e-5));
  CHECK(expected_timeouts(0.5, 1e12, 7) <= 8);
  CHECK(timeouts_at(0.01, 64, 0.5, 7) == 0);  // 0.99^64 is 0.53
  CHECK(timeouts_at(0.01, 64, 0.9, 7) == 1);
  CHECK(timeouts_at(0.5, 1e12, 0.9, 7) == 8);
}

TEST_CASE("what is no transport is refused with what is allowed", "[topology][transport]") {
  const auto refusal = [](const char* key, const char* value) {
    try {
      static_cast<void>(h100_with({{key, value}}));
    } catch (const InputError& error) {
      return std::string{error.what()};
    }
    return std::string{"accepted"};
  };
  CHECK(refusal("transport.loss", "0.9").find("0 to 0.5") != std::string::npos);
  CHECK(refusal("transport.recovery", "tcp").find("go_back_n, selective_repeat") !=
        std::string::npos);
  CHECK(refusal("transport.mtu", "1 B").find("256 B to 64 KiB") != std::string::npos);
  CHECK(refusal("transport.timeout", "0 s").find("timeout is 0") != std::string::npos);
  CHECK(refusal("transport.window", "1 KiB").find("less than one packet") != std::string::npos);
  CHECK(refusal("transport.retries", "9").find("0 to 7") != std::string::npos);
  CHECK(refusal("transport.los", "0.1").find("'loss'") != std::string::npos);
}

}  // namespace
}  // namespace sim
