// Which device file a GPU has, and what of it a rank has that shares it.
#include "sim/topology/device_of_gpu.hpp"

#include <filesystem>

#include "sim/topology/cluster.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"

using namespace sim;

TEST_CASE("a GPU's name leads to its device file", "[device_of_gpu]") {
  CHECK(device_of_gpu("NVIDIA H100 80GB HBM3") == "h100_sxm");
  CHECK(device_of_gpu("NVIDIA H100 80GB HBM3 MIG 3g.40gb") == "h100_sxm");
  CHECK(device_of_gpu("NVIDIA H200") == "h200_sxm");
  CHECK(device_of_gpu("NVIDIA H20") == "h20");
  CHECK(device_of_gpu("NVIDIA A100-SXM4-80GB") == "a100_sxm4_80");
  CHECK(device_of_gpu("NVIDIA A100 80GB PCIe") == "a100_pcie_80");
  CHECK(device_of_gpu("NVIDIA B200") == "b200_sxm");
  CHECK(device_of_gpu("NVIDIA GH200 480GB") == "gh200");
  CHECK(device_of_gpu("NVIDIA H800") == "h800_sxm");
  CHECK(device_of_gpu("NVIDIA GB10") == "gb10");
  CHECK(device_of_gpu("NVIDIA H800 PCIe").empty());
  CHECK(device_of_gpu("NVIDIA H200 NVL").empty());
  CHECK(device_of_gpu("NVIDIA H2000").empty());
  CHECK(device_of_gpu("").empty());
  for (const std::string& gpu : known_gpus()) {
    CAPTURE(gpu);
    CHECK(std::filesystem::exists(sim::test::source_dir() + "/topologies/devices/" +
                                  device_of_gpu(gpu) + ".yaml"));
  }
}

TEST_CASE("ranks that share a GPU have pairs of its SMs", "[device_of_gpu]") {
  CHECK(shared_sms(132, 1) == 132);
  CHECK(shared_sms(132, 2) == 66);
  CHECK(shared_sms(132, 4) == 32);
  CHECK(shared_sms(132, 8) == 14);  // 12% are 15.84
  CHECK(shared_sms(108, 4) == 26);
  CHECK(shared_sms(14, 8) == 0);
}

TEST_CASE("a share of a GPU has its part of everything but power", "[device_of_gpu]") {
  const Device whole = load_device(sim::test::source_dir() + "/topologies/devices/h100_sxm.yaml");
  const Device part = share_of_gpu(whole, 4);
  CHECK(part.name == "H100 SXM, one of 4 ranks (32 SMs)");
  CHECK(part.sms == 32);
  CHECK(part.memory == Bytes{std::int64_t{81559 / 4} << 20});
  CHECK_THAT(part.memory_bandwidth.in_bytes_per_second(), WithinRel(3350e9 / 4, 1e-12));
  CHECK_THAT(part.peak(DType::bf16).in_flops_per_second(), WithinRel(989.4e12 * 32 / 132, 1e-12));
  CHECK(part.require_gemm(DType::bf16).sustained == whole.require_gemm(DType::bf16).sustained);
  CHECK(part.operand_feed_sm == whole.operand_feed_sm);
  CHECK_THAT(part.operand_feed.in_bytes_per_second(), WithinRel(18960e9 * 32 / 132, 1e-12));
  CHECK(share_of_gpu(whole, 1).name == whole.name);
  Device small = whole;
  small.sms = 14;
  REQUIRE_THROWS_WITH(share_of_gpu(small, 8),
                      "H100 SXM: error: 8 ranks share 14 SMs: there is none for each; allowed: at "
                      "most 7 ranks");
}

TEST_CASE("a cluster of ranks that share a GPU has shares as devices", "[device_of_gpu]") {
  const Cluster cluster = Cluster::load(sim::test::source_dir() +
                                        "/validation/real/machines/h200-virtual-8/cluster.yaml");
  CHECK(cluster.gpus_per_node() == 8);
  CHECK(cluster.device().sms == 14);
  CHECK(cluster.device().memory == Bytes{std::int64_t{17971} << 20});
}
