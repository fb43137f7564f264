// Dumps of the Flight Recorder, made up: where ranks part.
#include "sim/trace/flight_recorder.hpp"

#include <fmt/format.h>

#include "sim/base/input_error.hpp"
#include "tests/catch.hpp"

using namespace sim;

namespace {

std::string call(int sequence, const std::string& operation, int elements,
                 const std::string& state = "completed", const std::string& type = "BFloat16") {
  return fmt::format(
      R"({{"process_group":["0","default_pg"],"collective_seq_id":{0},"p2p_seq_id":0,)"
      R"("profiling_name":"nccl:{1}","input_sizes":[[{2}]],"output_sizes":[[{2}]],)"
      R"("input_dtypes":["{3}"],"state":"{4}","is_p2p":false,"frames":[{{"line":1}}]}})",
      sequence, operation, elements, type, state);
}

std::string dump(const std::string& calls, const std::string& status = "") {
  return R"({"version":"2.3","pg_config":{"0":{"name":"0","desc":"default_pg",)"
         R"("ranks":"[0, 1, 2]"}},)" +
         status + R"("entries":[)" + calls + "]}";
}

HangReport report_of(const std::vector<std::string>& dumps) {
  std::vector<RecorderDump> named;
  for (std::size_t i = 0; i < dumps.size(); ++i)
    named.push_back({fmt::format("dump_rank_{}.json", i), dumps[i]});
  return parse_hangs(named);
}

std::string problem_of(const std::string& name, const std::string& text) {
  try {
    parse_hangs({{name, text}});
  } catch (const InputError& error) {
    return error.problems().front().what;
  }
  return {};
}

const std::string first = call(1, "all_reduce", 8);

}  // namespace

TEST_CASE("a rank that has not entered a collective is missing", "[trace]") {
  const std::string waits = first + "," + call(2, "all_gather", 4, "started");
  const HangReport report = report_of({dump(waits), dump(first), dump(waits)});
  REQUIRE(report.findings.size() == 1);
  const HangFinding& found = report.findings[0];
  CHECK(found.what == HangFinding::What::missing);
  CHECK(found.sequence == 2);
  CHECK(found.ranks == std::vector<RankId>{{1}});
  CHECK(found.others == std::vector<RankId>{{0}, {2}});
  CHECK(found.call.operation == "all_gather");
  CHECK(found.differs.operation == "all_reduce");
  REQUIRE(report.groups.size() == 1);
  CHECK(report.groups[0].members[0].entered == 2);
  CHECK(report.groups[0].members[0].completed == 1);
  CHECK(
      text_of(report) ==
      "group 0 (default_pg), call 2: ranks 0, 2 wait in all_gather of BFloat16 [4] -> [4]; rank 1 "
      "have not entered it (last: all_reduce of BFloat16 [8] -> [8])\n");
}

TEST_CASE("the first mismatch of order, sizes or types, against most of the ranks", "[trace]") {
  const auto found_in = [](const std::string& odd) {
    const std::string plain = first + "," + call(2, "all_reduce", 16, "started");
    const HangReport report = report_of({dump(plain), dump(first + "," + odd), dump(plain)});
    REQUIRE(report.findings.size() == 1);
    CHECK(report.findings[0].sequence == 2);
    CHECK(report.findings[0].ranks == std::vector<RankId>{{1}});
    return report.findings[0].what;
  };
  CHECK(found_in(call(2, "all_gather", 16, "started")) == HangFinding::What::operation);
  CHECK(found_in(call(2, "all_reduce", 17, "started")) == HangFinding::What::sizes);
  CHECK(found_in(call(2, "all_reduce", 16, "started", "Float")) == HangFinding::What::types);
}

TEST_CASE("an all-to-all may have other sizes on each rank", "[trace]") {
  const auto of = [](int elements) { return dump(call(1, "all_to_all", elements)); };
  CHECK(report_of({of(1), of(2), of(3)}).findings.empty());
}

TEST_CASE("a collective that all have entered and that is not over is stuck", "[trace]") {
  const std::string all = dump(first + "," + call(2, "all_reduce", 16, "started"));
  const HangReport report = report_of({all, all});
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].what == HangFinding::What::stuck);
  CHECK(report.findings[0].sequence == 2);
  CHECK(report.groups[0].without_dump == std::vector<RankId>{{2}});
  CHECK(text_of(report).find("no dump of rank 2") != std::string::npos);
}

TEST_CASE("a dump that is only earlier than another is no hang", "[trace]") {
  const HangReport report =
      report_of({dump(first + "," + call(2, "all_reduce", 16)), dump(first), dump(first)});
  CHECK(report.findings.empty());
  CHECK(report.notes.size() == 1);
}

TEST_CASE("the status of a group counts where its calls are no longer recorded", "[trace]") {
  const std::string status =
      R"("pg_status":{"0":{"last_enqueued_collective":9,"last_completed_collective":8}},)";
  const HangReport report = report_of({dump("", status), dump(call(8, "all_reduce", 1))});
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].what == HangFinding::What::missing);
  CHECK(report.findings[0].sequence == 9);
}

TEST_CASE("a message that is not over is told", "[trace]") {
  const std::string waits =
      R"({"process_group":["0","default_pg"],"collective_seq_id":0,"p2p_seq_id":3,)"
      R"("profiling_name":"nccl:recv 1<-0","input_sizes":[[5]],"output_sizes":[[5]],)"
      R"("input_dtypes":["Float"],"state":"scheduled","is_p2p":true})";
  const HangReport report = report_of({dump(first), dump(first + "," + waits), dump(first)});
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].what == HangFinding::What::message);
  CHECK(report.findings[0].call.operation == "recv 1<-0");
  CHECK(report.findings[0].ranks == std::vector<RankId>{{1}});
}

TEST_CASE("a dump is told by its head, whether it is a pickle or has no calls", "[trace]") {
  CHECK(is_recorder_dump("\x80\x02}q"));
  CHECK(is_recorder_dump(R"({"version":"2.4","pg_config":{},"entries":[]})"));
  CHECK_FALSE(is_recorder_dump(R"({"distributedInfo":{"pg_config":[]},"traceEvents":[]})"));
}

TEST_CASE("what is no dump is refused; a pickle with how to convert it", "[trace]") {
  CHECK(problem_of("a_rank_0", "\x80\x05\x95").find("is a pickle") == 0);
  CHECK(problem_of("a_rank_0", "{\"version\":\"2.3\"}") ==
        "no \"entries\": this is no dump of PyTorch's Flight Recorder");
  CHECK(problem_of("a.json", dump(first)).find("tells the rank") != std::string::npos);
  CHECK(problem_of("nccl_trace_12", dump(first)).empty());
  CHECK_THROWS_AS(parse_hangs({{"rank0", dump(first)}, {"rank_0", dump(first)}}), InputError);
}
