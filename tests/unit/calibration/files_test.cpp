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

namespace {

// A trace of one product with shapes (`dims`), on a GPU that is named so.
std::string trace_of(const std::string& gpu, const std::string& dims, const std::string& launch) {
  return R"({"schemaVersion":1,"deviceProperties":[{"id":0,"name":")" + gpu +
         R"(}],"traceEvents":[{"ph":"X","cat":"cpu_op","name":"aten::mm","ts":1,"dur":9,"args":)"
         R"({"External id":7)" +
         dims + R"(}},{"ph":"X","cat":"cuda_runtime","name":")" + launch +
         R"(","pid":1,"tid":1,"ts":2,"dur":1,"args":{"correlation":1}},{"ph":"X","cat":)"
         R"("cuda_runtime","name":")" +
         launch +
         R"(","pid":1,"tid":1,"ts":9,"dur":1,"args":{"correlation":2}},{"ph":"X","cat":"kernel",)"
         R"("name":"gemm","pid":0,"tid":7,"ts":20,"dur":700,"args":{"External id":7}}]})";
}
const std::string shapes =
    R"(,"Input Dims":[[4096,4096],[4096,4096]],"Input type":["c10::BFloat16","c10::BFloat16"])";

std::string device_problem(const std::string& trace, const char* base) {
  const Folder folder;
  const Device device =
      load_device(sim::test::source_dir() + "/topologies/devices/" + base + ".yaml");
  try {
    write_device_file(folder.path("device.yaml"), device,
                      parse_kineto({{"t.json", trace}}).machine);
  } catch (const InputError& error) {
    CHECK_FALSE(fs::exists(folder.path("device.yaml")));
    return error.problems().front().what;
  }
  return "";
}

}  // namespace

TEST_CASE("no device file is written that would be its base alone", "[calibration]") {
  const Folder folder;
  CHECK_THROWS_AS(write_device_file(folder.path("a.yaml"), host_base_device(),
                                    {.host = "box", .host_issue = Duration{5'000'000}}),
                  InputError);
  const std::string gpu = R"(NVIDIA H100 80GB HBM3","computeMajor":9,"warpSize":32)";
  CHECK(device_problem(trace_of(gpu, "", "cudaLaunchKernel"), "h100_sxm")
            .starts_with("nothing measured: no kernel has shapes"));
  CHECK(device_problem(trace_of(gpu, shapes, "cudaLaunchKernel"), "h100_sxm").empty());
}

TEST_CASE("a trace of another maker than the base is refused", "[calibration]") {
  const std::string amd = R"(AMD Radeon Graphics","computeMajor":9,"warpSize":64)";
  const std::string problem = device_problem(trace_of(amd, shapes, "hipLaunchKernel"), "h100_sxm");
  CHECK(problem.starts_with("the traces are of a GPU of AMD (\"AMD Radeon Graphics\")"));
  CHECK(device_problem(trace_of(amd, shapes, "hipLaunchKernel"), "mi300x").empty());
  const std::string plain = R"(X","numSms":8)";
  CHECK_FALSE(device_problem(trace_of(plain, shapes, "hipLaunchKernel"), "h200_sxm").empty());
  CHECK(device_problem(trace_of(plain, shapes, "cudaLaunchKernel"), "h200_sxm").empty());
}

TEST_CASE("a trace of another generation than the base is told", "[calibration]") {
  const Folder folder;
  const Device base = load_device(sim::test::source_dir() + "/topologies/devices/h100_sxm.yaml");
  const std::string gpu = R"(NVIDIA A100-SXM4-80GB","computeMajor":8,"warpSize":32)";
  const CalibratedFile written = write_device_file(
      folder.path("device.yaml"), base,
      parse_kineto({{"t.json", trace_of(gpu, shapes, "cudaLaunchKernel")}}).machine);
  REQUIRE_FALSE(written.notes.empty());
  CHECK(written.notes.front().find("compute capability 8; the base H100 SXM is hopper") !=
        std::string::npos);
}
