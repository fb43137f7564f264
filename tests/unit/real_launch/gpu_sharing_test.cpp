#include "real/launch/gpu_sharing.hpp"

#include <filesystem>
#include <fstream>

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

TEST_CASE("a program is found on PATH first, then where drivers put it", "[launch]") {
  namespace fs = std::filesystem;
  const std::string root = (fs::temp_directory_path() / "stepcast-find-program").string();
  const auto make = [&](const std::string& folder, fs::perms permissions) {
    fs::create_directories(root + folder);
    std::ofstream{root + folder + "/tool"} << "#!/bin/sh\n";
    fs::permissions(root + folder + "/tool", permissions);
  };
  make("/plain", fs::perms::owner_read);
  make("/driver", fs::perms::owner_all);
  make("/path", fs::perms::owner_all);
  const std::string path = root + "/nothing::" + root + "/plain";
  CHECK(find_program("tool", path, {root + "/driver"}) == root + "/driver/tool");
  CHECK(find_program("tool", path + ":" + root + "/path", {root + "/driver"}) ==
        root + "/path/tool");
  CHECK(find_program("tool", path, {}).empty());
  fs::remove_all(root);
}
