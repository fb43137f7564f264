#include "sim/collective/communicator_memory.hpp"

#include "sim/collective/nccl_tuning.hpp"
#include "tests/catch.hpp"
#include "tests/unit/collective/groups.hpp"

using namespace sim;
using collective_test::block;
using collective_test::load;

namespace {

constexpr std::int64_t mib = std::int64_t{1} << 20;

std::int64_t of_block(const char* cluster, int nodes, int per_node) {
  const Cluster loaded = load(cluster, nodes);
  return communicator_memory(
             nccl_group(loaded, group_shape(loaded, block(loaded, nodes, per_node))))
             .count() /
         mib;
}

NcclGroup group(int ranks, int nodes, int channels) {
  return {.generation = Generation::ampere,
          .ranks = ranks,
          .nodes = nodes,
          .ranks_per_node = ranks / nodes,
          .blocks = channels};
}

}  // namespace

TEST_CASE("a pair within a node: 12 MiB per channel", "[collective]") {
  // Ampere: 4 MiB and a page at the sender, LL and LL128 at the receiver: 6 + 6. NVIDIA/nccl issue
  // 964: 144 MiB more for groups of more than two, whose rank 0 ends the trees' chain: half of a
  // pair for each of 24 channels.
  CHECK(communicator_memory(group(2, 1, 24)).count() == 24 * 12 * mib);
  NcclGroup hopper = group(2, 1, 24);
  hopper.generation = Generation::hopper;  // 2 + 10
  CHECK(communicator_memory(hopper).count() == 24 * 12 * mib);
}

TEST_CASE("rings and trees within a node connect both neighbours in both directions",
          "[collective]") {
  CHECK(communicator_memory(group(8, 1, 24)).count() == 24 * 24 * mib);
}

TEST_CASE("over nodes, each channel's end has buffers of 10 MiB to send and to receive",
          "[collective]") {
  // 2 nodes of 8, 16 channels: 7/8 of 24 MiB per channel within the node; of 2 channels per rank
  // the ring's and one tree neighbour, 20 MiB each.
  CHECK(communicator_memory(group(16, 2, 16)).count() == (16 * 24 * 7 / 8 + 16 * 20 * 2 / 8) * mib);
  // From 4 nodes on a parent and two children.
  CHECK(communicator_memory(group(32, 4, 16)).count() == (16 * 24 * 7 / 8 + 16 * 20 * 4 / 8) * mib);
  CHECK(communicator_memory(group(64, 8, 16)) == communicator_memory(group(32, 4, 16)));
  // One rank per node: all of it over the network.
  CHECK(communicator_memory(group(8, 8, 2)).count() == 2 * 20 * 4 * mib);
}

TEST_CASE("in-switch reductions: two buffers of 1 MiB per channel and head", "[collective]") {
  NcclGroup hopper = group(8, 1, 16);
  hopper.generation = Generation::hopper;
  hopper.nvls = true;
  hopper.nvls_channels = 16;
  CHECK(communicator_memory(hopper).count() == (16 * 24 + 16 * 2 * 8) * mib);
}

TEST_CASE("cores and single ranks have no such buffers", "[collective]") {
  NcclGroup cores = group(8, 1, 1);
  cores.nccl = false;
  CHECK(communicator_memory(cores) == Bytes{});
  CHECK(communicator_memory(group(1, 1, 24)) == Bytes{});
}

TEST_CASE("a DGX A100 has 24 channels within a node and 16 over nodes", "[collective]") {
  CHECK(of_block("dgx-a100-80", 1, 8) == 24 * 24);
  CHECK(of_block("dgx-a100-80", 4, 8) == 16 * 24 * 7 / 8 + 16 * 20 * 4 / 8);
}
