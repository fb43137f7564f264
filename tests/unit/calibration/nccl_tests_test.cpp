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
  CHECK_THROWS_WITH(
      parse_nccl_tests("# size count type redop time algbw busbw error\n8 2 float sum 9 0 0 0\n",
                       "a.log"),
      "a.log:1:1: error: the log does not tell the collective; say so with --collective");
  CHECK_THROWS_WITH(parse_nccl_tests(log_213, "a.log", {.collective = "all_reduce", .ranks = 8}),
                    "a.log:10:1: error: the log says number of ranks 4, --ranks says 8");
  CHECK_THROWS_WITH(
      parse_nccl_tests("\nhello\n", "b.log", all_reduce()),
      "b.log:2:1: error: no table of nccl-tests was found: a header with size, time, algbw, busbw; "
      "not understood: 'hello'");
}

namespace {

// One run as nccl-tests 2.13 prints it: hosts of `per_host` GPUs each, one size, time in us.
std::string run_of(int hosts, int per_host, const std::string& row) {
  std::string text = "# nThread 1 nGpus 1 minBytes 8 maxBytes 8 agg iters: 1\n# Using devices\n";
  for (int rank = 0; rank < hosts * per_host; ++rank)
    text += "#  Rank " + std::to_string(rank) + " Group  0 Pid " + std::to_string(100 + rank) +
            " on node" + std::to_string(rank / per_host) + " device " +
            std::to_string(rank % per_host) + " [0x0f] NVIDIA X100\n";
  return text +
         "#  size  count  type  redop  root   time  algbw  busbw #wrong   time  algbw  busbw "
         "#wrong\n" +
         row + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1.0\n#\n";
}
std::string row(const std::string& size, const std::string& time) {
  return "  " + size + " 256 float sum -1 " + time + " 0.05 0.07 0 " + time + " 0.05 0.07 0\n";
}

// Every line with `label` before it.
std::string labelled(const std::string& text, const std::string& label) {
  std::string result = label;
  for (std::size_t i = 0; i < text.size(); ++i) {
    result += text[i];
    if (text[i] == '\n' && i + 1 < text.size()) result += label;
  }
  return result;
}

}  // namespace

TEST_CASE("each table has the collective, ranks and hosts of its own run", "[nccl-tests]") {
  const std::string log = "$ srun -N 1 all_reduce_perf\n" + run_of(1, 4, row("1024", "10.0")) +
                          "$ srun -N 2 all_reduce_perf\n" + run_of(2, 4, row("1024", "30.0")) +
                          "+ mpirun ./build/sendrecv_perf -g 1\n" +
                          run_of(1, 2, row("2048", "7.0")) + "$ gather_perf\n" +
                          run_of(1, 4, row("1024", "5.0"));
  const NcclTestsLog read = parse_nccl_tests(log, "runs.log");
  REQUIRE(read.points.size() == 3);
  const auto is = [&](std::size_t i, const char* kind, int ranks, int nodes, Duration time) {
    const MeasuredCollective& point = read.points[i];
    return point.collective == kind && point.ranks == ranks && point.nodes == nodes &&
           point.time == time;
  };
  CHECK(is(0, "all_reduce", 4, 1, 10us));
  CHECK(is(1, "all_reduce", 8, 2, 30us));
  CHECK(is(2, "send_receive", 2, 1, 7us));
  REQUIRE(read.notes.size() == 1);
  CHECK(read.notes[0].find("gather_perf is left out: no forecast has this collective") !=
        std::string::npos);
}

TEST_CASE("a table does not take the name of the one before it", "[nccl-tests]") {
  const std::string log =
      "$ all_reduce_perf\n" + run_of(1, 2, row("1024", "10.0")) + run_of(1, 2, row("1024", "12.0"));
  CHECK_THROWS_WITH(
      parse_nccl_tests(log, "a.log"),
      "a.log:15:1: error: the log does not tell the collective; say so with --collective");
  const NcclTestsLog hinted = parse_nccl_tests(log, "a.log", all_reduce());
  CHECK(hinted.points.size() == 2);
  CHECK(hinted.notes ==
        std::vector<std::string>{"a.log: 2 tables of all_reduce of 2 ranks on 1 node "
                                 "make one curve: the median of each size"});
}

TEST_CASE("labels of launchers before each line are passed over", "[nccl-tests]") {
  const std::string plain = "# Collective test starting: all_reduce_perf\n" +
                            run_of(2, 2, row("1024", "20.5") + row("2097152", "31.0"));
  for (const char* label :
       {"0: ", " 3: ", "[1,0]<stdout>:", "[0] ", "[rank0]: ", "2025-05-22T07:36:17.123456789Z ",
        "2025-05-22 07:36:17,123 - ", "[2025-05-22 07:36:17] ", "[pod/launcher-x/main] ",
        "nccl-1  | ", "worker-0: ", "May 22 07:36:17 host job[12]: ", "  ", "> "}) {
    CAPTURE(label);
    const NcclTestsLog log = parse_nccl_tests(labelled(plain, label), "l.log");
    REQUIRE(log.points.size() == 2);
    CHECK(log.points[0].time == 20500ns);
    CHECK(log.points[1].bytes == Bytes{2097152});
    CHECK(log.points[1].ranks == 4);
    CHECK(log.points[1].nodes == 2);
    CHECK(log.notes.empty());
  }
}

TEST_CASE("messages of NCCL in the middle of a row do not break it", "[nccl-tests]") {
  const std::string message = "node1:12:34 [0] NCCL INFO 4096 Bytes -> Algo 0 proto 0 time 25.8\n";
  const std::string log =
      "$ all_reduce_perf\n" +
      run_of(1, 2,
             "  4096  1024  float  sum  -1" + message + message + "  75.38  0.05  0.05  0" +
                 message + "  74.00  0.05  0.05  0\n" +
                 // MPICH -prepend-rank: a label before each piece that is written.
                 "[0]  8192  2048  float  sum  -1[0] " + message +
                 "[0]  80.00  0.10  0.10  0[0]  79.00  0.10  0.10  0\n");
  const NcclTestsLog read = parse_nccl_tests(log, "i.log");
  REQUIRE(read.points.size() == 2);
  CHECK(read.points[0].time == 74us);
  CHECK(read.points[1].bytes == Bytes{8192});
  CHECK(read.points[1].time == 79us);
}

TEST_CASE("wrong results are refused with their line", "[nccl-tests]") {
  const std::string start = "$ all_reduce_perf\n";
  CHECK_THROWS_WITH(
      parse_nccl_tests(start + run_of(1, 2, "8 2 float sum -1 5 0.1 0.1 0 5 0.1 0.1 12\n"),
                       "w.log"),
      "w.log:7:1: error: #wrong is 12: the run computed wrong results; its times are not used");
  CHECK_THROWS_WITH(
      parse_nccl_tests(labelled(start + "# size count type redop time algbw busbw error\n"
                                        "8 2 float sum 5 0.1 0.1 2e-07\n"
                                        "# Out of bounds values : 3 FAILED\n",
                                "0: "),
                       "w.log", {.ranks = 2, .nodes = 1}),
      "w.log:4:1: error: the run computed wrong results: '0: # Out of bounds values : 3 FAILED'; "
      "its "
      "times are not used");
}

TEST_CASE("outputs of several processes in one another are refused", "[nccl-tests]") {
  const std::string one = run_of(1, 1, row("1024", "10.0"));
  const std::string other = "#  Rank 0 Group  0 Pid 7 on beta device 0 [0x0f] NVIDIA X100\n";
  std::string log = "$ all_reduce_perf\n" + one;
  log.insert(log.find("#  size"), other);
  CHECK_THROWS_WITH(
      parse_nccl_tests(log, "m.log"),
      "m.log:5:1: error: rank 0 is listed a second time, after line 4: each process "
      "measured alone (nccl-tests built without MPI=1), or the outputs of several runs "
      "are mixed");
  const std::string header = "# size count type redop time algbw busbw error\n";
  CHECK_THROWS_WITH(
      parse_nccl_tests(header + header, "m.log", all_reduce()),
      "m.log:2:1: error: a second header after that of line 1, without a row between: "
      "outputs of several processes are mixed");
  CHECK_THROWS_WITH(parse_nccl_tests(header + "8 2 float sum 5 0.1\n16 4 float sum 5 0.1 0.1 0\n",
                                     "m.log", all_reduce()),
                    "m.log:2:1: error: this row has 6 of 8 columns and another row begins: '8 2 "
                    "float sum 5 0.1'; "
                    "outputs of several processes are mixed, or it is cut off");
}

TEST_CASE("trays of an NVLink domain are counted as the cluster's nodes", "[nccl-tests]") {
  NcclTestsHints hints = all_reduce();
  hints.trays = TrayShape{.gpus = 4, .trays = 18};
  const auto nodes = [&](int hosts) {
    return parse_nccl_tests(run_of(hosts, 4, row("1024", "10.0")), "r.log", hints).points[0].nodes;
  };
  CHECK(nodes(18) == 1);
  CHECK(nodes(16) == 1);
  CHECK(nodes(32) == 2);  // 16 of 18 trays of each
  CHECK(nodes(36) == 2);
  CHECK(nodes(256) == 16);  // no 15 racks hold as many each
  hints.nodes = 2;
  CHECK(nodes(16) == 2);
  hints.nodes = 1;
  CHECK_THROWS_WITH(nodes(36),
                    "r.log:147:1: error: 36 hosts are trays; 1 nodes of 18 trays do not hold them");
  // Hosts of more GPUs than a tray has are none of its trays.
  hints.nodes = {};
  CHECK(parse_nccl_tests(run_of(2, 8, row("1024", "10.0")), "r.log", hints).points[0].nodes == 2);
}

TEST_CASE("groups that run at once are curves of one group", "[nccl-tests]") {
  std::string log = "$ all_reduce_perf\n" + run_of(2, 2, row("1024", "10.0"));
  for (const char* rank : {"Rank 1 ", "Rank 3 "})
    log.replace(log.find(rank), 15, std::string{rank} + "Group  1");
  const NcclTestsLog read = parse_nccl_tests(log, "g.log");
  CHECK(read.points[0].ranks == 2);
  CHECK(read.points[0].nodes == 2);
  REQUIRE(read.notes.size() == 1);
  CHECK(read.notes[0].find("2 groups of 2 ranks ran at once") != std::string::npos);
}

TEST_CASE("bandwidths that belong to another collective are refused", "[nccl-tests]") {
  const std::string log = run_of(
      1, 8, "1073741824 268435456 float none -1 2000.0 536.87 469.76 0 2010.0 534.2 467.4 0\n");
  CHECK_THROWS_WITH(
      parse_nccl_tests(log, "f.log", all_reduce()),
      "f.log:12:1: error: busbw is 0.875 of algbw; for all_reduce of 8 ranks it is 1.750: this "
      "table "
      "is of another collective or number of ranks; say so with --collective, --ranks");
  CHECK(parse_nccl_tests(log, "f.log", {.collective = "all_gather"}).points.size() == 1);
}

TEST_CASE("sums whose bus bandwidth is above the algorithm's are an all-reduce", "[nccl-tests]") {
  const NcclTestsLog log = parse_nccl_tests(
      run_of(18, 4,
             "8589934592 2147483648 float sum -1 20299 423.17 834.59 0 20006 429.37 846.81 0\n"),
      "u.log");
  CHECK(log.points[0].collective == "all_reduce");
  CHECK(log.notes ==
        std::vector<std::string>{"u.log:75: the log does not name the collective: sums "
                                 "with a busbw of 1.972 algbw are all_reduce"});
}

TEST_CASE("sizes that occur several times, other reductions, NCCL_ALGO are told", "[nccl-tests]") {
  const NcclTestsLog log =
      parse_nccl_tests("$ mpirun -x NCCL_ALGO=Tree all_reduce_perf -o all -N 2\n" +
                           run_of(1, 2,
                                  row("1024", "10.0") + row("1024", "14.0") +
                                      "1024 256 float max -1 99 0.1 0.1 0 99 0.1 0.1 0\n"),
                       "n.log");
  REQUIRE(log.points.size() == 2);
  CHECK(log.points[0].algorithm == "tree");
  CHECK(
      log.notes ==
      std::vector<std::string>{
          "n.log:6: rows of max are left out: the curve is of sum",
          "n.log:6: NCCL_ALGO was Tree: a curve of algorithm tree, used where a scenario asks for "
          "it",
          "n.log:6: a size occurs several times: the median counts"});
}

TEST_CASE("a half that was not run, and what is between rows", "[nccl-tests]") {
  const NcclTestsLog log = parse_nccl_tests(
      "$ alltoall_perf\n" + run_of(1, 2,
                                   "1024 256 float none -1 10.0 0.1 0.1 0 N/A N/A N/A N/A\n"
                                   "some warning\n"
                                   "2048 512 float none -1      12.0 0.1 0.1 -\n"),
      "h.log");
  REQUIRE(log.points.size() == 2);
  CHECK(log.points[1].time == 12us);
  CHECK(log.notes ==
        std::vector<std::string>{"h.log: 1 line between rows is not understood and left "
                                 "out; line 8: 'some warning'"});
  CHECK_THROWS_WITH(
      parse_nccl_tests("# size count type redop root cputime algbw busbw #wrong\n", "c.log"),
      "c.log:1:1: error: measured with -C 1: the time of the host alone; run nccl-tests without "
      "it");
}
