// Refusals of start_collective, word by word.
#include "real/net/collectives.hpp"
#include "tests/catch.hpp"

using namespace real;  // NOLINT(google-build-using-namespace): a test
using Kind = sim::CollectiveKind;
using Algorithm = CollectiveAlgorithm;

namespace {

const std::vector<int> four{0, 1, 2, 3};  // NOLINT(cert-err58-cpp)

void start(CollectiveCall call, std::size_t in, std::size_t out) {
  const auto world = make_local_world(4);
  std::vector<std::byte> input(in);
  std::vector<std::byte> output(out);
  call.members = four;
  call.input = input;
  call.output = output;
  start_collective(*world[0], call);
}

}  // namespace

TEST_CASE("an algorithm that a collective does not have is refused", "[net]") {
  REQUIRE_THROWS_WITH(start({.kind = Kind::all_gather, .algorithm = Algorithm::tree}, 4, 16),
                      "all_gather: has no algorithm tree");
  REQUIRE_THROWS_WITH(
      start({.kind = Kind::broadcast, .algorithm = Algorithm::halving_doubling}, 4, 4),
      "broadcast: has no algorithm halving_doubling");
  REQUIRE_THROWS_WITH(start({.kind = Kind::barrier}, 0, 0), "barrier: has no algorithm ring");
}

TEST_CASE("nodes must divide the members of a hierarchical all-reduce", "[net]") {
  REQUIRE_THROWS_WITH(start({.algorithm = Algorithm::hierarchical, .members_per_node = 3}, 4, 4),
                      "all_reduce: 4 members are no whole number of nodes with 3");
  REQUIRE_THROWS_WITH(start({.algorithm = Algorithm::hierarchical}, 4, 4),
                      "all_reduce: 4 members are no whole number of nodes with 0");
}

TEST_CASE("sizes that do not fit together are refused", "[net]") {
  REQUIRE_THROWS_WITH(start({}, 8, 4), "all_reduce: 8 bytes in and 4 out do not fit 4 ranks");
  REQUIRE_THROWS_WITH(start({.kind = Kind::reduce_scatter}, 16, 8),
                      "reduce_scatter: 16 bytes in and 8 out do not fit 4 ranks");
  REQUIRE_THROWS_WITH(start({.kind = Kind::all_gather}, 4, 18),
                      "all_gather: 4 bytes in and 18 out do not fit 4 ranks");
  REQUIRE_THROWS_WITH(start({}, 6, 6),
                      "all_reduce: 6 bytes in and 6 out are no whole number of fp32 elements");
}

TEST_CASE("only fp32 is reduced, anything is moved", "[net]") {
  REQUIRE_THROWS_WITH(start({.dtype = sim::DType::bf16}, 8, 8),
                      "all_reduce: cannot reduce bf16: fp32 only");
  REQUIRE_NOTHROW(start({.kind = Kind::all_gather, .dtype = sim::DType::bf16}, 2, 8));
}

TEST_CASE("a root must be a member", "[net]") {
  REQUIRE_THROWS_WITH(start({.kind = Kind::broadcast, .root = 4}, 4, 4),
                      "broadcast: has no member 4 to be its root");
}
