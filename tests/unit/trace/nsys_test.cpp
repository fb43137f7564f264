// Exports of Nsight Systems, made here with the tables of its documentation.
#include <sqlite3.h>

#include <filesystem>

#include "sim/base/input_error.hpp"
#include "sim/trace/nvtx_steps.hpp"
#include "sim/trace/traced_run.hpp"
#include "tests/catch.hpp"
#include "tests/temporary.hpp"

using namespace sim;
using namespace std::chrono_literals;

namespace {

class Export {
 public:
  explicit Export(const std::string& statements)
      : path_{sim::test::temporary_path("nsys.sqlite").string()} {
    std::filesystem::remove(path_);
    sqlite3* database = nullptr;
    REQUIRE(sqlite3_open(path_.c_str(), &database) == SQLITE_OK);
    const int result = sqlite3_exec(database, statements.c_str(), nullptr, nullptr, nullptr);
    const std::string message = sqlite3_errmsg(database);
    sqlite3_close(database);
    INFO(message);
    REQUIRE(result == SQLITE_OK);
  }
  ~Export() { std::filesystem::remove(path_); }
  Export(const Export&) = delete;
  Export& operator=(const Export&) = delete;

  const std::string& path() const { return path_; }
  std::string problem() const {
    try {
      read_run({path_});
    } catch (const InputError& error) {
      return error.problems().front().what;
    }
    return {};
  }

 private:
  std::string path_;
};

bool has_note(const TracedRun& run, const std::string& part) {
  for (const std::string& note : run.notes)
    if (note.find(part) != std::string::npos) return true;
  return false;
}

// Two processes of one device each: serialised ids of processes 100 and 200, thread 1 each.
const std::string two_ranks = R"sql(
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO StringIds VALUES (1, 'nvjet_tst_64x64'), (2, 'cudaLaunchKernel'),
  (3, 'ncclDevKernel_AllReduce_Sum_bf16_RING_LL'), (4, 'train step 1'), (5, 'train step 2'),
  (6, 'gemm');
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL,
  deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,
  demangledName INTEGER, shortName INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES
  (2000, 3000, 1, 1, 7, 11, 3355443200, 3, 3), (1500, 2500, 0, 1, 7, 11, 1677721600, 1, 6),
  (2600, 3000, 0, 1, 20, 12, 1677721600, 3, 3);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER,
  streamId INTEGER, correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (3100, 3200, 0, 7, 13, 1677721600, 64, 1);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER,
  correlationId INTEGER, nameId INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1100, 1150, 1677721601, 11, 2),
  (1200, 1250, 1677721601, 12, 2), (1300, 1350, 3355443201, 11, 2);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER, text TEXT,
  textId INTEGER, globalTid INTEGER);
INSERT INTO NVTX_EVENTS VALUES (1000, 3000, 59, NULL, 4, 1677721601),
  (3000, 5000, 59, NULL, 5, 1677721601), (1010, 1020, 59, 'forward', NULL, 1677721601),
  (1050, 1160, 59, 'aten::mm, op_id = 5', NULL, 1677721601), (1, NULL, 34, 'mark', NULL, 1);
CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, totalMemory INTEGER, smCount INTEGER,
  threadsPerWarp INTEGER, computeMajor INTEGER);
INSERT INTO TARGET_INFO_GPU VALUES (4, 'Y200', 1, 1, 32, 9), (5, 'X100', 1000, 12, 32, 9);
CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER, pid INTEGER);
INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (4, 0, 7), (5, 0, 100);
)sql";

}  // namespace

TEST_CASE("processes and devices of Nsight Systems are ranks of one clock", "[trace]") {
  const Export file{two_ranks};
  const TracedRun run = read_run({file.path()});
  CHECK(run.maker == "Nsight Systems");
  CHECK(run.one_clock);
  CHECK(run.device.name == "X100");
  CHECK(run.device.memory == Bytes{1000});
  CHECK(run.device.multiprocessors == 12);
  REQUIRE(run.ranks.size() == 2);
  const RunRank& rank = run.ranks[0];
  CHECK_FALSE(rank.rank_told);
  REQUIRE(rank.device.size() == 3);
  CHECK(run.names[rank.device[0].name] == "nvjet_tst_64x64");
  CHECK(rank.device[0].begin == TimePoint{500ns});  // from the first range
  CHECK(rank.device[0].time() == Duration{1us});
  CHECK(rank.device[0].kind == OpKind::gemm);
  CHECK(rank.device[0].stream == 7);
  REQUIRE(rank.device[0].launch != not_told);
  const HostSpan& launch = rank.host[static_cast<std::size_t>(rank.device[0].launch)];
  CHECK(run.names[launch.name] == "cudaLaunchKernel");
  REQUIRE(rank.device[0].issuer != not_told);
  CHECK(run.names[rank.host[static_cast<std::size_t>(rank.device[0].issuer)].name] ==
        "aten::mm, op_id = 5");
  CHECK(rank.calls[0].kind == CollectiveKind::all_reduce);
  CHECK(run.names[rank.device[2].name] == "Memcpy HtoD");
  REQUIRE(rank.steps.size() == 2);
  CHECK(rank.steps[0].name == "train step 1");
  CHECK(rank.steps[1].end == TimePoint{4us});
  // The correlation of one process is not that of another.
  REQUIRE(run.ranks[1].device.size() == 1);
  CHECK(run.ranks[1].host.size() == 1);
  CHECK(run.ranks[1].device[0].launch == 0);
}

TEST_CASE("tables and columns that an export has not are said", "[trace]") {
  const Export file{
      "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, shortName INTEGER);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5, 9, 1), (9, 5, 1);"};
  const TracedRun run = read_run({file.path()});
  REQUIRE(run.ranks.size() == 1);
  CHECK(run.ranks[0].device.size() == 1);
  CHECK(has_note(run, "it has no table CUPTI_ACTIVITY_KIND_RUNTIME, StringIds, NVTX_EVENTS"));
  CHECK(has_note(run, "has no column deviceId, streamId, correlationId, globalPid, demangledName"));
  CHECK(has_note(run, "1 spans"));
}

TEST_CASE("another database, and an export without kernels, are refused by name", "[trace]") {
  CHECK(Export{"CREATE TABLE bookmarks (id INTEGER);"}.problem() ==
        "a database of SQLite that is no export of Nsight Systems: it has no table "
        "CUPTI_ACTIVITY_KIND_KERNEL, its tables are 'bookmarks'");
  CHECK(Export{"CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER);"}.problem() ==
        "a report of Nsight Systems without kernels: record it with --trace=cuda");
  // A view has the name of a table, and no end.
  CHECK(
      Export{"CREATE TABLE a (x INTEGER); CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH "
             "RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c;"}
          .problem()
          .starts_with("a database of SQLite that is no export"));
}

TEST_CASE("steps are ranges that recur: by their words, or the outermost", "[trace]") {
  const auto range = [](const char* name, int begin, int end, std::uint32_t thread = 0) {
    return NvtxRange{name, thread, TimePoint{Duration{begin}}, TimePoint{Duration{end}}};
  };
  const auto names = [](const std::vector<StepMark>& steps) {
    std::string text;
    for (const StepMark& step : steps)
      text += step.name + ";";
    return text;
  };
  CHECK(names(steps_of_ranges({range("Iteration 2", 50, 90), range("Iteration 1", 0, 50),
                               range("Optimizer.step", 30, 50), range("Optimizer.step", 80, 90),
                               range("all", 0, 100)})) == "Iteration 1;Iteration 2;");
  CHECK(names(steps_of_ranges({range("batch", 0, 40), range("forward", 0, 20),
                               range("batch", 40, 80), range("forward", 40, 70)})) ==
        "batch;batch;");
  CHECK(steps_of_ranges({range("train", 0, 40), range("eval", 40, 80)}).empty());
  // Overlapping ones are no steps.
  CHECK(steps_of_ranges({range("step", 0, 40), range("step", 20, 60)}).empty());
}
