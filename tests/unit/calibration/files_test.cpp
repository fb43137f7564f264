// From logs to the files that `simulate` takes, as `stepcast calibrate` goes that way.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "sim/base/input_error.hpp"
#include "sim/calibration/calibrated_files.hpp"
#include "sim/calibration/fit.hpp"
#include "sim/calibration/measured_files.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/temporary.hpp"

using namespace sim;
using namespace std::chrono_literals;

namespace {

namespace fs = std::filesystem;

// Eight GPUs of one host; the second size in 50 us.
const std::string rows =
    "#  size  count  type  redop  root   time  algbw  busbw #wrong   time  algbw  busbw #wrong\n"
    "   1024    256  float  sum   -1  20.50   0.05   0.09    0  21.00   0.05   0.09    0\n"
    "1048576 262144  float  sum   -1  60.00  17.48  30.58    0  50.00  20.97  36.70    0\n";

std::string log_text() {
  std::string text = "# Using devices\n";
  for (const char* rank : {"0", "1", "2", "3", "4", "5", "6", "7"})
    text += std::string{"#  Rank  "} + rank + " Group  0 Pid  1 on a device  " + rank +
            " [0x0f] NVIDIA A100-SXM4-80GB\n";
  return text + rows;
}

class Folder {
 public:
  Folder() { fs::create_directories(path_); }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string path(const std::string& name) const { return (path_ / name).string(); }

 private:
  fs::path path_ = sim::test::temporary_path("calibrated-files");
};

MeasuredFiles files_in(const Folder& folder) {
  std::ofstream{folder.path("a.log")} << log_text();
  return {.nccl_logs = {folder.path("a.log")},
          .kineto_traces = {},
          .nccl = {.collective = "all_reduce"}};
}

const std::string h100 = sim::test::source_dir() + "/topologies/dgx-h100.yaml";

}  // namespace

TEST_CASE("a log of another GPU than the cluster's is told", "[calibration]") {
  const Folder folder;
  const Cluster cluster = Cluster::load(h100);
  const FilesOfMachine read = read_measured_files(files_in(folder), &cluster);
  CHECK(read.machine.collectives.size() == 2);
  REQUIRE(!read.notes.empty());
  CHECK(read.notes.back().starts_with("WARNING: " + folder.path("a.log") + ": "));
  for (const std::string& note : read_measured_files(files_in(folder), nullptr).notes)
    CHECK(note.starts_with("note: "));
}

TEST_CASE("measured curves become a cluster file that can be read", "[calibration]") {
  const Folder folder;
  const MeasuredMachine machine = read_measured_files(files_in(folder), nullptr).machine;
  const CalibratedFile written =
      write_cluster_file({.path = folder.path("mine.yaml"),
                          .base = h100,
                          .base_name = "dgx-h100",
                          .device = sim::test::source_dir() + "/topologies/devices/h100_sxm.yaml"},
                         machine);
  CHECK(written.summary == "all_reduce of 8 ranks on 1 node: 2 points\n");
  const Cluster cluster = Cluster::load(folder.path("mine.yaml"));
  CHECK(cluster.name() == "mine");
  const auto& curves = cluster.measured();
  const auto mine = std::find_if(curves.begin(), curves.end(), [](const MeasuredCurve& curve) {
    return curve.collective == "all_reduce" && curve.ranks == 8 && curve.nodes == 1 &&
           curve.points.size() == 2;
  });
  REQUIRE(mine != curves.end());
  CHECK(mine->points[1].time == 50us);
  CHECK_THROWS_WITH(
      write_cluster_file({.path = "none.yaml", .base = h100, .base_name = "dgx-h100"}, {}),
      "none.yaml: error: no collective was measured that a curve could hold");
}

TEST_CASE("a device file is its base where nothing was measured", "[calibration]") {
  const Folder folder;
  const Device base = host_base_device();
  write_device_file(folder.path("device.yaml"), base, {.host = "box"});
  CHECK(load_device(folder.path("device.yaml")).memory_bandwidth == base.memory_bandwidth);
}
