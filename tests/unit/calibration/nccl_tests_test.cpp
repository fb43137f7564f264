// Logs of nccl-tests in its dialects; rows as that program prints them, figures made up.
#include "sim/calibration/nccl_tests.hpp"

#include "sim/base/input_error.hpp"
#include "tests/catch.hpp"

using namespace sim;
using namespace std::chrono_literals;

namespace {

// Version 2.13 and later: root, #wrong; two hosts of two GPUs.
const std::string log_213 =
    "# nThread 1 nGpus 1 minBytes 8 maxBytes 1048576 step: 2(factor) warmup iters: 5 iters: 20\n"
    "#\n# Using devices\n"
    "#  Rank  0 Group  0 Pid   11 on alpha device  0 [0x0f] NVIDIA X100\n"
    "#  Rank  1 Group  0 Pid   12 on alpha device  1 [0x10] NVIDIA X100\n"
    "#  Rank  2 Group  0 Pid   13 on beta device  0 [0x0f] NVIDIA X100\n"
    "#  Rank  3 Group  0 Pid   14 on beta device  1 [0x10] NVIDIA X100\n"
    "#\n"
    "#                                          out-of-place                  in-place\n"
    "#  size  count  type  redop  root   time  algbw  busbw #wrong   time  algbw  busbw #wrong\n"
    "#   (B)  (elements)                 (us)  (GB/s) (GB/s)         (us)  (GB/s) (GB/s)\n"
    "      0      0  float  sum   -1   5.10   0.00   0.00    0   5.00   0.00   0.00    0\n"
    "   1024    256  float  sum   -1  20.50   0.05   0.07    0  21.00   0.05   0.07    0\n"
    "alpha:11:22 [0] NCCL INFO Launch mode Parallel\n"
    "1048576 262144  float  sum   -1  60.00  17.48  26.21    0  50.00  20.97  31.46  N/A\n"
    "# Out of bounds values : 0 OK\n"
    "# Avg bus bandwidth    : 12.3\n";

NcclTestsHints all_reduce() {
  return {.collective = "all_reduce", .ranks = {}, .nodes = {}};
}

}  // namespace

TEST_CASE("a log gives size, the better time, ranks and nodes", "[nccl-tests]") {
  const NcclTestsLog log = parse_nccl_tests(log_213, "a.log", all_reduce());
  REQUIRE(log.points.size() == 2);
  CHECK(log.points[0].bytes == Bytes{1024});
  CHECK(log.points[0].time == 20500ns);
  CHECK(log.points[1].bytes == Bytes{1048576});
  CHECK(log.points[1].time == 50us);
  CHECK(log.points[1].collective == "all_reduce");
  CHECK(log.points[1].ranks == 4);
  CHECK(log.points[1].nodes == 2);
  CHECK(log.device == "NVIDIA X100");
  CHECK(log.notes == std::vector<std::string>{"a.log: 1 rows without bytes or time"});
}

TEST_CASE("the oldest dialect has an error column and no root", "[nccl-tests]") {
  const NcclTestsLog log = parse_nccl_tests(
      "#   Rank  0 Pid  1 on one device  0 [0x00] Tesla Z\n"
      "#   Rank  1 Pid  2 on one device  1 [0x00] Tesla Z\n"
      "#  size  count  type  redop   time  algbw  busbw  error   time  algbw  busbw  error\n"
      "  4096   1024  float    sum   12.5   0.33   0.33  2e-07   12.0   0.34   0.34  2e-07\n",
      "old.log", {.collective = "broadcast", .ranks = {}, .nodes = {}});
  REQUIRE(log.points.size() == 1);
  CHECK(log.points[0].time == 12us);
  CHECK(log.points[0].ranks == 2);
  CHECK(log.points[0].nodes == 1);
}

TEST_CASE("the dialect of 2026 names its collective and has more columns", "[nccl-tests]") {
  const NcclTestsLog log = parse_nccl_tests(
      "# nccl-tests version 2.17.0\n# Collective test starting: reduce_scatter_perf\n"
      "#  Rank  0 Group  0 Pid  1 on one device  0 [0000:0f:00] NVIDIA X100\n"
      "#  Rank  1 Group  0 Pid  2 on one device  1 [0000:10:00] NVIDIA X100\n"
      "NCCL version 2.29.3+cuda13.1\n"
      "#  size count type redop root time algbw busbw #wrong i_min i_max i_p99 i_cv%"
      " time algbw busbw #wrong i_min i_max i_p99 i_cv%\n"
      "  65536 16384 float sum -1 30.0 2.18 1.09 0 29 31 31 1.0 28.0 2.34 1.17 0 27 29 29 1.0\n"
      "# Collective test concluded: reduce_scatter_perf\n",
      "new.log");
  REQUIRE(log.points.size() == 1);
  CHECK(log.points[0].collective == "reduce_scatter");
  CHECK(log.points[0].time == 28us);
  CHECK(log.versions == std::vector<std::string>{"NCCL 2.29.3+cuda13.1"});
}

TEST_CASE("tags of mpirun and colours are passed over; ranks follow from the bandwidths",
          "[nccl-tests]") {
  // 8 ranks: busbw = 2 * 7/8 algbw.
  const NcclTestsLog log = parse_nccl_tests(
      "[1,0]<stdout>:#  size count type redop root time algbw busbw #wrong\r\n"
      "[1,0]<stdout>:\x1b[1m 1000000000 250000000 float sum -1 10000 100.00 175.00 0\x1b[0m\r\n",
      "tag.log", {.collective = "all_reduce", .ranks = {}, .nodes = 1});
  REQUIRE(log.points.size() == 1);
  CHECK(log.points[0].ranks == 8);
}

TEST_CASE("what a log does not tell is asked for, and contradictions are refused", "[nccl-tests]") {
  CHECK_THROWS_WITH(parse_nccl_tests(log_213, "a.log"),
                    "a.log: error: the log does not tell the collective; say so with --collective");
  CHECK_THROWS_WITH(
      parse_nccl_tests(log_213, "a.log", {.collective = "all_reduce", .ranks = 8, .nodes = {}}),
      "a.log: error: the log says number of ranks 4, --ranks says 8");
  CHECK_THROWS_WITH(
      parse_nccl_tests("hello\n", "b.log", all_reduce()),
      "b.log: error: no table of nccl-tests was found: a header with size, time, algbw, busbw");
  CHECK_THROWS_WITH(parse_nccl_tests("{\"version\": 1}", "c.json", all_reduce()),
                    "c.json: error: this is the JSON of nccl-tests (-J); give its text output");
}
