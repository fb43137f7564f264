// The trace of a hand-made step on two pipeline ranks, read back as JSON.
#include "sim/timeline/perfetto.hpp"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "sim/timeline/json_stream.hpp"
#include "tests/catch.hpp"
#include "tests/temporary.hpp"

using namespace sim;
using nlohmann::json;

namespace {

TimePoint at(std::int64_t ps) {
  return TimePoint{Duration{ps}};
}

void add(Program& program, OpKind kind, Stream stream, std::uint32_t work, std::uint32_t name) {
  program.kind.push_back(kind);
  program.stream.push_back(stream);
  program.pass.push_back(Pass::forward);
  program.work.push_back(work);
  program.label.push_back({.name = name, .layer = 3, .chunk = 0, .microbatch = 1});
  program.first_dependency.push_back(0);
  program.first_buffer_use.push_back(static_cast<std::uint32_t>(program.buffer_use.size()));
}

// Stage 0 computes and sends; stage 1 receives and computes. The activation lives from the receive
// to the end of the second kernel.
Plan two_stages() {
  Plan plan;
  plan.layout.pipeline_parallel = 2;
  plan.programs.resize(2);
  for (Program& program : plan.programs) {
    program.names = {"qkv \"quoted\"", "send", "recv"};
    program.kernels = {Kernel{.kind = OpKind::gemm, .m = 8, .n = 4, .k = 2}};
    program.transfers = {Transfer{.bytes = Bytes{1000}}};
    program.buffers = {Buffer{Bytes{4 << 20}, BufferCategory::weights, true},
                       Buffer{Bytes{2 << 20}, BufferCategory::activations, false}};
    program.first_dependency = {0};
    program.first_buffer_use = {0};
  }
  add(plan.programs[0], OpKind::gemm, Stream::compute, 0, 0);
  add(plan.programs[0], OpKind::send, Stream::forward_send, 0, 1);
  plan.programs[1].stage = 1;
  plan.programs[1].buffer_use = {{BufferId{1}, Access::write}};
  add(plan.programs[1], OpKind::recv, Stream::forward_recv, 0, 2);
  plan.programs[1].buffer_use.push_back({BufferId{1}, Access::free});
  add(plan.programs[1], OpKind::gemm, Stream::compute, 0, 0);
  plan.program_of_rank = {0, 1};
  plan.group_of.resize(2);
  for (auto& roles : plan.group_of)
    roles.fill(Plan::no_group);
  plan.peer_of = {{RankId{1}, RankId{1}}, {RankId{0}, RankId{0}}};
  return plan;
}

Timeline two_tracks() {
  Timeline timeline;
  timeline.engine = "simulated";
  timeline.end = at(9'000'001);
  timeline.tracks = {{.rank = RankId{0},
                      .represents = 8,
                      .spans = {{OpId{0}, at(0), at(0), at(5'000'001)},
                                {OpId{1}, at(5'000'001), at(5'000'001), at(6'000'001)}}},
                     {.rank = RankId{1},
                      .represents = 8,
                      .spans = {{OpId{0}, at(0), at(5'000'001), at(6'000'001)},
                                {OpId{1}, at(6'000'001), at(6'000'001), at(9'000'001)}}}};
  return timeline;
}

std::string trace_text(const TraceOptions& options = {
                           .title = "t", .gpus_per_node = 8, .ranks = {}}) {
  std::ostringstream out;
  const TraceStats stats = write_perfetto(out, two_stages(), two_tracks(), options);
  CHECK(stats.bytes == out.str().size());
  return out.str();
}

std::vector<json> events(const std::string& phase) {
  std::vector<json> found;
  const json trace = json::parse(trace_text());
  for (const json& event : trace["traceEvents"])
    if (event["ph"] == phase) found.push_back(event);
  return found;
}

}  // namespace

TEST_CASE("the trace is JSON in milliseconds, and names its processes and threads") {
  const json trace = json::parse(trace_text());
  CHECK(trace["displayTimeUnit"] == "ms");
  std::map<std::string, std::vector<std::string>> names;
  for (const json& event : events("M"))
    if (event["args"].contains("name")) names[event["name"]].push_back(event["args"]["name"]);
  CHECK(names["process_name"] ==
        std::vector<std::string>{"rank 0 (node 0 gpu 0) x8", "rank 1 (node 0 gpu 1) x8"});
  CHECK(names["thread_name"] ==
        std::vector<std::string>{"compute", "forward_send", "compute", "forward_recv"});
}

TEST_CASE("times are microseconds, exact to the picosecond") {
  CHECK(trace_text().find("\"ts\":5.000001,\"dur\":1.000000") != std::string::npos);
}

TEST_CASE("slices of one thread do not overlap; waiting is a slice of its own") {
  std::map<std::pair<int, int>, double> end;
  int waits = 0;
  for (const json& event : events("X")) {
    const std::pair<int, int> thread{event["pid"], event["tid"]};
    CHECK(event["ts"].get<double>() >= end[thread] - 1e-9);
    end[thread] = event["ts"].get<double>() + event["dur"].get<double>();
    waits += event["name"] == "wait" ? 1 : 0;
  }
  CHECK(events("X").size() == 5);
  CHECK(waits == 1);
}

TEST_CASE("a slice carries its shape, layer and micro-batch") {
  const json slice = events("X").front();
  CHECK(slice["name"] == "qkv \"quoted\"");
  CHECK(slice["args"]["m"] == 8);
  CHECK(slice["args"]["layer"] == 3);
  CHECK(slice["args"]["microbatch"] == 1);
}

TEST_CASE("an arrow leads from each send to its receive") {
  const std::vector<json> from = events("s");
  const std::vector<json> to = events("f");
  REQUIRE(from.size() == 1);
  REQUIRE(to.size() == 1);
  CHECK(from[0]["id"] == to[0]["id"]);
  CHECK(from[0]["pid"] == 0);
  CHECK(to[0]["pid"] == 1);
  CHECK(to[0]["ts"].get<double>() >= from[0]["ts"].get<double>());
}

TEST_CASE("memory follows the buffers: allocated at the receive, freed after the last kernel") {
  std::vector<int> activations;
  for (const json& event : events("C"))
    if (event["pid"] == 1 && event["name"] == "memory (MiB)") {
      CHECK(event["args"]["weights"] == 4);
      activations.push_back(event["args"]["activations"]);
    }
  CHECK(activations == std::vector<int>{2, 0});
}

TEST_CASE("what a rank sends is shown while it sends: 1000 B in 1 us are 1000 MB/s") {
  std::vector<int> rates;
  for (const json& event : events("C"))
    if (event["pid"] == 0 && event["name"] == "sends (MB/s)")
      rates.push_back(event["args"]["pipeline"]);
  CHECK(rates == std::vector<int>{0, 1000, 0});
}

TEST_CASE("only the ranks asked for; one without a track is refused") {
  const json one = json::parse(trace_text({.title = "", .gpus_per_node = 1, .ranks = {RankId{1}}}));
  for (const json& event : one["traceEvents"])
    CHECK(event["pid"] == 1);
  std::ostringstream out;
  CHECK_THROWS_AS(write_perfetto(out, two_stages(), two_tracks(),
                                 {.title = "", .gpus_per_node = 1, .ranks = {RankId{7}}}),
                  std::invalid_argument);
}

TEST_CASE("a trace file appears when it is complete, and a folder that is missing is an error") {
  const auto path = test::temporary_path("trace.json");
  write_perfetto_file(path.string(), two_stages(), two_tracks(), {});
  CHECK(std::filesystem::exists(path));
  std::filesystem::remove(path);
  CHECK_THROWS_WITH(write_perfetto_file("/no/such/folder/x.json", two_stages(), two_tracks(), {}),
                    "cannot write /no/such/folder/x.json: No such file or directory");
}

TEST_CASE("a device is written to, never replaced by a file") {
  // The pipe stands for /dev/null and /dev/stdout, which a test must not put at risk.
  const auto path = test::temporary_path("trace.fifo");
  std::filesystem::remove(path);
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  std::thread reader{[&] {
    std::ifstream in{path};
    const std::string text{std::istreambuf_iterator<char>{in}, {}};
    CHECK(json::accept(text));
  }};
  write_perfetto_file(path.string(), two_stages(), two_tracks(), {});
  reader.join();
  CHECK(std::filesystem::is_fifo(path));
  std::filesystem::remove(path);
}

TEST_CASE("text longer than the buffer passes through it whole") {
  std::ostringstream out;
  JsonStream stream{out};
  const std::string piece(700'000, 'x');
  stream.text(piece);
  stream.text(piece);
  stream.integer(-42);
  stream.flush();
  CHECK(out.str() == piece + piece + "-42");
}
