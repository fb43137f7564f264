// Traces of several ranks as one run.
#include <zlib.h>

#include <filesystem>
#include <fstream>

#include "sim/base/input_error.hpp"
#include "sim/timeline/record.hpp"
#include "sim/trace/traced_run.hpp"
#include "tests/catch.hpp"
#include "tests/temporary.hpp"
#include "tests/unit/trace/kineto_events.hpp"

using namespace sim;
using namespace sim::test;
using namespace std::chrono_literals;

namespace {

class TraceFolder {
 public:
  TraceFolder() : path_{temporary_path("traces")} { std::filesystem::create_directories(path_); }
  ~TraceFolder() { std::filesystem::remove_all(path_); }
  TraceFolder(const TraceFolder&) = delete;
  TraceFolder& operator=(const TraceFolder&) = delete;

  std::string write(const std::string& name, const std::string& text) const {
    const std::string path = (path_ / name).string();
    std::ofstream{path, std::ios::binary} << text;
    return path;
  }
  std::string write_gzip(const std::string& name, const std::string& text) const {
    const std::string path = (path_ / name).string();
    gzFile file = gzopen(path.c_str(), "wb");
    REQUIRE(gzwrite(file, text.data(), static_cast<unsigned>(text.size())) ==
            static_cast<int>(text.size()));
    gzclose(file);
    return path;
  }

 private:
  std::filesystem::path path_;
};

std::string head(int rank, const std::string& device = "X100", int world = 2,
                 const std::string& members = "0,1", std::int64_t base = 1790857026000000000) {
  return fmt::format(
      R"("deviceProperties":[{{"name":"{}"}}],"baseTimeNanoseconds":{},"distributedInfo":)"
      R"({{"rank":{},"world_size":{},"pg_config":[{{"pg_name":"0","pg_desc":"default_pg",)"
      R"("ranks":[{}]}}]}},)",
      device, base, rank, world, members);
}

std::string problem_of(const std::vector<std::string>& paths) {
  try {
    read_run(paths);
  } catch (const InputError& error) {
    return error.problems().front().what;
  }
  return {};
}

}  // namespace

TEST_CASE("ranks whose collectives meet are of one clock, also in gzip", "[trace]") {
  const TraceFolder folder;
  const std::string late =
      folder.write("b", trace_of(launch(1, 130) + all_reduce(1, 150, 50), head(1)));
  const std::string early =
      folder.write_gzip("a", trace_of(launch(1, 100) + all_reduce(1, 110, 90), head(0)));
  const TracedRun run = read_run({late, early});
  CHECK(run.one_clock);
  CHECK(run.world_size == 2);
  REQUIRE(run.ranks.size() == 2);
  CHECK(run.ranks[0].rank == RankId{0});
  CHECK(run.ranks[0].source == early);
  CHECK(run.ranks[0].device[0].begin == TimePoint{10us});
  CHECK(run.ranks[1].device[0].begin == TimePoint{50us});
  CHECK(run.ranks[1].host[0].begin == TimePoint{30us});
  CHECK(run.groups.size() == 1);
  CHECK(run.ranks[0].calls[0].group == run.ranks[1].calls[0].group);
}

TEST_CASE("ranks whose collectives do not meet each have a clock of their own", "[trace]") {
  const TraceFolder folder;
  const TracedRun run =
      read_run({folder.write("a", trace_of(launch(1, 100) + all_reduce(1, 110, 20), head(0))),
                folder.write("b", trace_of(launch(1, 300) + all_reduce(1, 310, 20), head(1)))});
  CHECK_FALSE(run.one_clock);
  CHECK(run.ranks[0].device[0].begin == TimePoint{10us});
  CHECK(run.ranks[1].device[0].begin == TimePoint{10us});
  REQUIRE_FALSE(run.notes.empty());
  CHECK(run.notes[0].find("their clocks differ") != std::string::npos);
}

TEST_CASE("ranks that no trace tells are numbered by the files' names", "[trace]") {
  const TraceFolder folder;
  const std::string trace = trace_of(launch(1, 1) + all_reduce(1, 10, 5));
  const TracedRun run =
      read_run({folder.write("rank-10.json", trace), folder.write("rank-2.json", trace)});
  CHECK(run.ranks[0].rank == RankId{2});
  CHECK(run.ranks[1].rank == RankId{10});
  CHECK_FALSE(run.ranks[1].rank_told);
}

TEST_CASE("traces that are not of one run are refused", "[trace]") {
  const TraceFolder folder;
  const std::string events = launch(1, 1) + all_reduce(1, 10, 5);
  const std::string first = folder.write("a", trace_of(events, head(0)));
  CHECK(problem_of({first, folder.write("b", trace_of(events, head(0)))}) ==
        "a second trace of rank 0");
  CHECK(problem_of({first, folder.write("c", trace_of(events, head(1, "Y200")))}) ==
        "is of a device 'Y200', the traces before it of 'X100'");
  CHECK(problem_of({first, folder.write("d", trace_of(events, head(1, "X100", 4, "0,1")))}) ==
        "is of a run of 4 ranks, the traces before it of 2");
  CHECK(problem_of({first, folder.write("e", trace_of(events, head(1, "X100", 2, "1,2")))})
            .find("they are not of one run") != std::string::npos);
  CHECK(problem_of({first, folder.write("f", trace_of(events, head(7)))}) ==
        "its rank is 7, of a run of 2 ranks");
}

TEST_CASE("files that are none are refused: absent, cut off, damaged, something else", "[trace]") {
  const TraceFolder folder;
  CHECK(problem_of({"/nonexistent/trace"}) == "cannot be opened");
  CHECK(problem_of({folder.write("a", "{\"nodes\": []}")}) ==
        "no \"traceEvents\": this is no trace of the PyTorch profiler");
  std::string text = trace_of(launch(1, 1));
  for (int i = 0; i < 200; ++i)
    text += fmt::format(" {}", i * i);
  const std::string whole = folder.write_gzip("b", text);
  std::ifstream stream{whole, std::ios::binary};
  std::string packed{std::istreambuf_iterator<char>{stream}, {}};
  CHECK(problem_of({folder.write("c", packed.substr(0, packed.size() / 2))})
            .starts_with("is gzip that is cut off: "));
  packed[packed.size() / 2] = static_cast<char>(packed[packed.size() / 2] ^ 0x55);
  packed[packed.size() / 2 + 1] = static_cast<char>(packed[packed.size() / 2 + 1] ^ 0x55);
  CHECK(problem_of({folder.write("d", packed)}).starts_with("is gzip that is damaged: "));
}

TEST_CASE("a trace of Stepcast has all ranks on one clock, and the operator of each slice",
          "[trace]") {
  const TraceFolder folder;
  const TracedRun run = read_run({folder.write(
      "a",
      R"({"otherData":{"engine":"simulated"},"traceEvents":[)"
      R"({"ph":"X","cat":"forward","name":"mlp","args":{"op":4,"m":64,"n":32,"k":16,"batch":1},)"
      R"("pid":3,"tid":1,"ts":2,"dur":5},)"
      R"({"ph":"X","cat":"forward","name":"sum","args":{"op":0,"operation":"all_reduce",)"
      R"("group":"tensor","bytes":4096},"pid":0,"tid":2,"ts":1,"dur":4}]})")});
  CHECK(run.maker == "Stepcast (simulated)");
  CHECK(run.one_clock);
  REQUIRE(run.ranks.size() == 2);
  CHECK(run.ranks[1].rank == RankId{3});
  CHECK(run.ranks[1].device[0].planned == 4);
  CHECK(run.ranks[1].device[0].begin == TimePoint{1us});
  CHECK(run.ranks[1].products[0] == Product{64, 32, 16, 1});
  CHECK(run.ranks[0].calls[0].bytes == Bytes{4096});
  CHECK(run.ranks[0].calls[0].kind == CollectiveKind::all_reduce);
}

TEST_CASE("a record knows what ran", "[trace]") {
  Program program;
  program.names = {"mlp", "sum"};
  Kernel product;
  product.kind = OpKind::gemm;
  product.m = 64;
  product.n = 32;
  product.k = 16;
  program.kernels = {product};
  program.collectives = {{.kind = CollectiveKind::all_gather,
                          .group = GroupRole::data,
                          .dtype = DType::bf16,
                          .bytes = Bytes{4096}}};
  program.kind = {OpKind::gemm, OpKind::collective};
  program.stream = {Stream::compute, Stream::data_comm};
  program.pass = {Pass::forward, Pass::forward};
  program.work = {0, 0};
  program.label.resize(2);
  program.label[1].name = 1;
  Record record;
  record.engine = "simulated";
  record.end = TimePoint{9us};
  record.world_size = 2;
  record.programs = {program};
  const auto span = [](std::uint32_t op, TimePoint begin, TimePoint active, TimePoint end) {
    Span made;
    made.op = OpId{op};
    made.begin = begin;
    made.active = active;
    made.end = end;
    return made;
  };
  RecordedTrack track;
  track.rank = {1};
  track.represents = 2;
  track.spans = {span(0, TimePoint{}, TimePoint{2us}, TimePoint{5us}),
                 span(1, TimePoint{5us}, TimePoint{6us}, TimePoint{9us})};
  record.tracks = {track};
  const TraceFolder folder;
  const TracedRun run = read_run({folder.write("a", to_text(record))});
  CHECK(run.maker == "Stepcast (simulated)");
  CHECK(run.world_size == 2);
  REQUIRE(run.ranks.size() == 1);
  const RunRank& rank = run.ranks[0];
  CHECK(rank.rank == RankId{1});
  REQUIRE(rank.device.size() == 2);
  CHECK(rank.device[0].begin == TimePoint{});  // when the rank arrived
  REQUIRE(rank.steps.size() == 1);             // the whole record
  CHECK(rank.steps[0].begin == TimePoint{});
  CHECK(rank.device[0].time() == Duration{5us});
  CHECK(rank.device[0].planned == 0);
  CHECK(rank.products[0] == Product{64, 32, 16, 1});
  CHECK(rank.calls[0].kind == CollectiveKind::all_gather);
  CHECK(run.groups[0].name == "data");
  CHECK(run.notes == std::vector<std::string>{"1 ranks stand for 2 that do the same"});
}
