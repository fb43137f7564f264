// nccl-tests -J and NCCL's Inspector; keys as those programs write them, figures made up.
#include "sim/calibration/nccl_json.hpp"

#include <fmt/format.h>

#include "sim/base/input_error.hpp"
#include "tests/catch.hpp"

using namespace sim;
using namespace std::chrono_literals;

namespace {

std::string device(int rank, const char* host, int number) {
  return fmt::format(
      R"({{"rank":{},"group":0,"pid":1,"hostname":"{}","device":{},"device_hex":"0",)"
      R"("device_info":"NVIDIA X100"}})",
      rank, host, number);
}

// Two hosts, a process with two GPUs on each: only its first is listed.
std::string tests_json(const std::string& rest = "", const char* program = "/opt/all_reduce_perf",
                       const char* second = R"({"time":50.0,"alg_bw":20.97152,"bus_bw":31.45728,)"
                                            R"("nwrong":null})") {
  return fmt::format(
      R"({{"version":2,"args":["{}","-J","a.json"],"env":["A=1"],"nccl_version":22903,)"
      R"("config":{{"nthreads":1,"ngpus":2,"aggregated_iterations":1,"devices":[{},{}]}},)"
      R"("results":[{{"size":1048576,"count":524288,"type":"half","redop":"sum","root":"-1",)"
      R"("out_of_place":{{"time":60.0,"alg_bw":17.476267,"bus_bw":26.2144,"nwrong":0.0}},)"
      R"("in_place":{},"actual_iterations":20}}]{}}})",
      program, device(0, "alpha", 0), device(2, "beta", 0), second, rest);
}

std::string problem_of(const std::string& text) {
  try {
    parse_nccl_tests(text, "a.json");
  } catch (const InputError& error) {
    return error.problems().front().what;
  }
  return "";
}

std::string record(const char* name, int number, std::int64_t bytes, double us, double alg,
                   double bus) {
  return fmt::format(R"({{"coll_perf":{{"coll":"{}","coll_sn":{},"coll_msg_size_bytes":{},)"
                     R"("coll_exec_time_us":{},"coll_algobw_gbs":{},"coll_busbw_gbs":{}}}}})"
                     "\n",
                     name, number, bytes, us, alg, bus);
}
const std::string marker =
    R"({"header":{"id":"0xa","rank":0,"n_ranks":4,"nnodes":1},)"
    R"("metadata":{"inspector_output_format_version":"v4.3"},"dump_stats":{"coll_records":3}})"
    "\n";

}  // namespace

TEST_CASE("nccl-tests -J gives what its text output gives", "[nccl-tests]") {
  const NcclTestsLog log = parse_nccl_tests(tests_json(), "a.json");
  REQUIRE(log.points.size() == 1);
  CHECK(log.points[0].collective == "all_reduce");
  CHECK(log.points[0].bytes == Bytes{1048576});
  CHECK(log.points[0].time == 50us);
  CHECK(log.points[0].ranks == 4);
  CHECK(log.points[0].nodes == 2);
  CHECK(log.device == "NVIDIA X100");
  CHECK(log.versions == std::vector<std::string>{"NCCL 2.29.3"});
}

TEST_CASE("a half that was not run is left out of nccl-tests -J", "[nccl-tests]") {
  CHECK(parse_nccl_tests(tests_json("", "all_reduce_perf", "null"), "a").points[0].time == 60us);
  CHECK(
      parse_nccl_tests(
          tests_json("", "all_reduce_perf", R"({"time":"nan","alg_bw":"nan","bus_bw":"nan"})"), "a")
          .points[0]
          .time == 60us);
}

TEST_CASE("nccl-tests -J of a failed run or another collective is refused", "[nccl-tests]") {
  CHECK(problem_of(tests_json(R"(,"out_of_bounds":{"count":3,"okay":"false"})"))
            .starts_with("the run computed wrong results"));
  CHECK(problem_of(tests_json("", "all_gather_perf")).starts_with("busbw is 1.500 of algbw"));
  CHECK(problem_of(tests_json("", "all_reduce_perf", R"({"cpu_time":5.0})"))
            .starts_with("measured with -C 1"));
  CHECK(problem_of(R"({"results":[]})") == "there are no results of nccl-tests in this file");
  CHECK(problem_of(R"({"a":1})") ==
        "is JSON, but neither of nccl-tests (-J) nor of NCCL's Inspector");
}

TEST_CASE("NCCL's Inspector: sizes of parts become whole buffers", "[nccl-tests]") {
  const NcclTestsLog log =
      parse_nccl_tests(marker + record("AllReduce", 1, 1 << 20, 50, 20.97152, 31.45728) +
                           record("AllReduce", 2, 1 << 20, 70, 14.979657, 22.469486) +
                           record("AllGather", 3, 1 << 20, 100, 41.94304, 31.45728) +
                           record("SomethingNew", 4, 1, 1, 1, 1),
                       "i.jsonl");
  REQUIRE(log.points.size() == 2);
  CHECK(log.points[0].collective == "all_reduce");
  CHECK(log.points[0].time == 60us);  // the median of two calls
  CHECK(log.points[0].ranks == 4);
  CHECK(log.points[1].collective == "all_gather");
  CHECK(log.points[1].bytes == Bytes{4 << 20});
  CHECK(log.notes.front() == "i.jsonl: 1 records are of no collective that a forecast has");
}

TEST_CASE("a call that several ranks wrote counts the fastest", "[nccl-tests]") {
  const NcclTestsLog log =
      parse_nccl_tests(marker + record("AllReduce", 1, 1 << 20, 90, 11.650844, 17.476267) + marker +
                           record("AllReduce", 1, 1 << 20, 50, 20.97152, 31.45728),
                       "i.jsonl");
  REQUIRE(log.points.size() == 1);
  CHECK(log.points[0].time == 50us);
}

TEST_CASE("NCCL's Inspector: what makes no curve is refused", "[nccl-tests]") {
  CHECK(problem_of(marker).starts_with("this is JSON of NCCL's Inspector without a collective"));
  CHECK(problem_of(marker + record("AllGather", 1, 1 << 20, 100, 10.48576, 7.86432))
            .starts_with("coll_algobw_gbs is that of 1048576 bytes"));
  CHECK(problem_of(record("AllReduce", 1, 1 << 20, 50, 20.97152, 31.45728)) ==
        "a call of a collective before the header of its communicator");
  CHECK(problem_of(marker + "{\"coll_perf\":{\n" + marker).starts_with("not valid JSON"));
}

TEST_CASE("a last line that is cut off is left out and told", "[nccl-tests]") {
  const NcclTestsLog log = parse_nccl_tests(
      marker + record("AllReduce", 1, 1 << 20, 50, 20.97152, 31.45728) + "{\"coll_perf\":{\"co",
      "i.jsonl");
  CHECK(log.points.size() == 1);
  CHECK(log.notes.front().find("the last line is left out") != std::string::npos);
}
