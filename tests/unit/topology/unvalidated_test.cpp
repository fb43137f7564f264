// The note of a machine without a measurement behind it.
#include "sim/topology/unvalidated.hpp"

#include <filesystem>

#include "cluster_files.hpp"
#include "sim/topology/describe.hpp"
#include "tests/catch.hpp"

namespace sim {
namespace {

TEST_CASE("a device or cluster that rests on no measurement says so, others do not", "[topology]") {
  CHECK(unvalidated(Cluster::load("topologies/dgx-h100.yaml")).empty());
  CHECK(unvalidated_line({}).empty());
  const Cluster cluster = Cluster::load("topologies/mi350x-8.yaml");
  const std::vector<Unvalidated> parts = unvalidated(cluster);
  REQUIRE(parts.size() == 2);
  CHECK(parts[0].what == "device");
  CHECK(parts[0].name == "MI350X");
  CHECK(parts[0].rests_on.find("data sheet") != std::string::npos);
  CHECK(parts[1].what == "cluster");
  CHECK(parts[1].name == "mi350x-8");
  CHECK(unvalidated_line(parts) ==
        "not validated: no measurement of training stands behind device MI350X, cluster mi350x-8");
  const std::string text = describe(cluster);
  CHECK(text.find("not validated: device MI350X: from the data sheet") != std::string::npos);
  CHECK(text.find("not validated: cluster mi350x-8: the MI355X") != std::string::npos);
}

}  // namespace
}  // namespace sim
