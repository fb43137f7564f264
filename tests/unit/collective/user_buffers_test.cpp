// Communication between registered buffers of a node: its closed forms.
#include "tests/catch.hpp"
#include "tests/unit/collective/groups.hpp"

using namespace sim;
using namespace collective_test;

namespace {

CollectiveCost cost_of(const Cluster& cluster, const std::vector<GpuId>& members,
                       const Collective& request) {
  return collective_cost(cluster, group_shape(cluster, members), request, {.use_measured = false});
}

}  // namespace

TEST_CASE("a shift by copy engines takes no SMs and the links' rate", "[collective]") {
  const Cluster cluster = load("dgx-h100", 1);
  const std::vector<GpuId> members = block(cluster, 1, 4);
  const GroupShape shape = group_shape(cluster, members);
  const CollectiveCost cost = cost_of(
      cluster, members,
      {CollectiveKind::ring_shift, GroupRole::tensor, DType::bf16, 64_MiB, Carrier::copy_engines});
  CHECK(cost.channels == 0);
  // 96.5% of NVLink, as messages reach on Hopper; two small kernels and a step of 3.4 us.
  const double link = shape.intra_bandwidth.in_bytes_per_second();
  CHECK_THAT(to_seconds(cost.transfer), WithinRel(67108864 / (0.965 * link), 1e-6));
  const double small = to_seconds(cluster.device().memory_kernels.fixed);
  CHECK_THAT(to_seconds(cost.latency), WithinRel(2 * small + 3.4e-6, 1e-6));
}

TEST_CASE("few thread blocks bound what they gather and scatter", "[collective]") {
  const Cluster cluster = load("dgx-h100", 1);
  const std::vector<GpuId> members = block(cluster, 1, 4);
  const auto scattered = [&](int blocks) {
    return cost_of(cluster, members,
                   {CollectiveKind::reduce_scatter, GroupRole::tensor, DType::bf16, 64_MiB,
                    Carrier::user_buffers, blocks});
  };
  const CollectiveCost four = scattered(4);
  CHECK(four.channels == 4);
  // Three quarters come from the others; a block copies 20.3 GB/s.
  CHECK_THAT(to_seconds(four.transfer), WithinRel(0.75 * 67108864 / (4 * 20.3e9), 1e-6));
  CHECK(scattered(32).transfer < four.transfer);
  CHECK(scattered(32).transfer == scattered(64).transfer);  // the links'
  // One exchange of flags, whatever the number of ranks.
  CHECK(scattered(4).latency == scattered(32).latency);
}

TEST_CASE("over several nodes NCCL carries what user buffers cannot", "[collective]") {
  const Cluster cluster = load("dgx-h100", 2);
  const std::vector<GpuId> members = block(cluster, 2, 4);
  Collective request{CollectiveKind::all_gather, GroupRole::tensor, DType::bf16, 64_MiB};
  const CollectiveCost nccl = cost_of(cluster, members, request);
  request.carrier = Carrier::user_buffers;
  request.blocks = 16;
  const CollectiveCost buffers = cost_of(cluster, members, request);
  CHECK(buffers.transfer == nccl.transfer);
  CHECK(buffers.latency == nccl.latency);
}
