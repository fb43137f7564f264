// Files that a run leaves, and folders for records.
#include <fstream>

#include "real/jobs/record_folder.hpp"
#include "real/jobs/run_files.hpp"
#include "sim/base/input_error.hpp"
#include "sim/timeline/record.hpp"
#include "tests/catch.hpp"
#include "tests/unit/real_jobs/support.hpp"

namespace real::test {

namespace fs = std::filesystem;

TEST_CASE("what cannot be written is refused before a step is trained") {
  const Folder folder{"run-files"};
  require_writable({.trace = folder.path("t.json"), .record = ""}, folder.path("made/checkpoints"));
  CHECK(fs::is_directory(folder.path("made/checkpoints")));
  CHECK_THROWS_WITH(require_writable({.trace = folder.path(), .record = ""}, ""),
                    folder.path() + ": error: cannot write this file");
  CHECK_THROWS_WITH(require_writable({.trace = "", .record = "/no/such/r.json"}, ""),
                    "/no/such/r.json: error: cannot write this file");
  std::ofstream{folder.path("file")} << "x";
  CHECK_THROWS_WITH(
      require_writable({}, folder.path("file/below")),
      folder.path("file/below") + ": error: cannot write checkpoints into this folder");
}

TEST_CASE("a run leaves a trace and a record with the times of its counted steps") {
  const Folder folder{"run-files"};
  const RunFiles files{.trace = folder.path("t.json"), .record = folder.path("r.json")};
  const sim::Scenario scenario = tiny_scenario(3);
  const sim::Plan plan = sim::make_plan(scenario.model, scenario.layout);
  std::vector<std::string> lines;
  std::vector<sim::Duration> times;
  train_scenario(scenario, plan, {.backend = BackendChoice::host, .warm_up = 1},
                 [&](const TrainingRun& run) {
                   lines = write_run_files(files, scenario, plan, run);
                   times = {run.steps[1].time, run.steps[2].time};
                 });
  CHECK(lines == std::vector<std::string>{"trace: " + files.trace + ": open it at ui.perfetto.dev",
                                          "record: " + files.record});
  CHECK(fs::file_size(files.trace) > 0);
  const sim::Record record = sim::read_record(files.record);
  CHECK(record.origin.steps == times);
  CHECK(record.origin.scenario == scenario.name);
  CHECK(record.tracks.size() == 2);
}

TEST_CASE("a run that was interrupted too early says that it leaves nothing") {
  const sim::Scenario scenario = tiny_scenario(1);
  const sim::Plan plan = sim::make_plan(scenario.model, scenario.layout);
  CHECK(write_run_files({}, scenario, plan, {}).empty());
  CHECK(write_run_files({.trace = "t.json", .record = ""}, scenario, plan, {}) ==
        std::vector<std::string>{
            "no trace and no record: the run was interrupted before the recorded step"});
}

TEST_CASE("a folder without a name is gone with its object, a named one stays") {
  const Folder folder{"record-folder"};
  std::string temporary;
  {
    const RecordFolder unnamed{""};
    temporary = unnamed.path();
    CHECK(fs::is_directory(temporary));
    const RecordFolder named{folder.path("a/b")};
  }
  CHECK_FALSE(fs::exists(temporary));
  CHECK(fs::is_directory(folder.path("a/b")));
}

}  // namespace real::test
