#include "real/launch/gpu_sharing.hpp"

#include "real/launch/rank_process.hpp"
#include "tests/catch.hpp"

using namespace real;  // NOLINT(google-build-using-namespace): a test
using Variables = std::map<std::string, std::string>;

TEST_CASE("ranks on one GPU share its SMs and look like different hosts to NCCL", "[launch]") {
  REQUIRE(sharing_environment({.ranks_per_gpu = 4, .folder = "/tmp/x"}, 2) ==
          Variables{{"CUDA_MPS_PIPE_DIRECTORY", "/tmp/x"},
                    {"CUDA_MPS_LOG_DIRECTORY", "/tmp/x"},
                    {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "25"},
                    {"NCCL_HOSTID", "stepcast-rank-2"},
                    {"NCCL_SOCKET_IFNAME", "lo"}});
  // 100/8 is 12.5: a whole percentage that eight ranks have together.
  REQUIRE(sharing_environment({.ranks_per_gpu = 8, .folder = "/tmp/x"}, 0)
              .at("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE") == "12");
}

TEST_CASE("a rank's process has what torchrun's children have", "[launch]") {
  REQUIRE(rank_environment(3, 8, 29500) == Variables{{"RANK", "3"},
                                                     {"WORLD_SIZE", "8"},
                                                     {"LOCAL_RANK", "3"},
                                                     {"LOCAL_WORLD_SIZE", "8"},
                                                     {"MASTER_ADDR", "127.0.0.1"},
                                                     {"MASTER_PORT", "29500"}});
}
