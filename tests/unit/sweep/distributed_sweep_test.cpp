// A sweep does not depend on who forecasts its points.
#include "sim/sweep/distributed_sweep.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "sim/base/input_error.hpp"
#include "sim/sweep/sweep_job.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/temporary.hpp"

using namespace sim;

namespace {

const std::string root = sim::test::source_dir();
const Control never;

struct ScenarioFile {
  std::string path = test::temporary_path("workers-sweep.yaml").string();
  ScenarioFile() {
    std::ofstream{path} << "model: " << root << "/models/gpt2.yaml\ncluster: {path: " << root
                        << "/topologies/dgx-h100.yaml, nodes: 1}\nlayout: {tensor_parallel: 2, "
                           "sequence_length: 512, global_batch: 16}\nsearch: {micro_batch: 1, "
                           "zero_stage: 0, recompute: none, virtual_stages: 1}\n";
  }
  ~ScenarioFile() { std::remove(path.c_str()); }
  ScenarioFile(const ScenarioFile&) = delete;
  ScenarioFile& operator=(const ScenarioFile&) = delete;
};

void forecast_part(const SweepSpecification& specification, Shard shard, ResultCache& book) {
  WorkerPool workers{forecast_units(specification), 2, {}, nullptr};
  DistributedSweep sweep{
      .specification = specification, .workers = workers, .book = book, .shard = shard};
  REQUIRE(sweep.run(never));
}

std::string json_from(const SweepSpecification& specification, ResultCache& book) {
  WorkerPool workers{forecast_units(specification), 2, {}, nullptr};
  std::size_t forecast = 0;
  DistributedSweep sweep{
      .specification = specification, .workers = workers, .book = book, .done = [&] {
        ++forecast;
      }};
  REQUIRE(sweep.run(never));
  CHECK(forecast == 0);
  return sweep_json(sweep.result()) + sweep_svg(sweep.result());
}

}  // namespace

TEST_CASE("parts of a sweep that are merged give the sweep, byte for byte", "[sweep]") {
  const ScenarioFile file;
  // Some points cannot be forecast: 3 does not divide the batch.
  const SweepSpecification fixed =
      load_sweep(file.path, {},
                 {"layout.micro_batch=1,2,3", "cluster.change.node.nics.bandwidth=x0.5,x1"}, false);
  const SweepSpecification best = load_sweep(file.path, {}, {"layout.global_batch=8,16"}, true);
  for (const SweepSpecification* specification : {&fixed, &best}) {
    const Sweep alone = run_sweep(*specification);
    for (const std::uint32_t count : {1U, 2U, 3U}) {
      ResultCache book;
      for (std::uint32_t i = count; i-- > 0;)
        forecast_part(*specification, {i, count}, book);
      CHECK(json_from(*specification, book) == sweep_json(alone) + sweep_svg(alone));
    }
  }
}

TEST_CASE("a sweep that is stopped has what it has", "[sweep]") {
  const ScenarioFile file;
  const SweepSpecification specification =
      load_sweep(file.path, {}, {"layout.micro_batch=1,2,4,8"}, false);
  WorkerPool workers{forecast_units(specification), 1, {}, nullptr};
  ResultCache book;
  std::stop_source stop;
  DistributedSweep sweep{
      .specification = specification, .workers = workers, .book = book, .done = [&] {
        stop.request_stop();
      }};
  CHECK_FALSE(sweep.run({.stop = stop.get_token()}));
  CHECK(book.size() >= 1);
  CHECK(book.size() < 4);
}

TEST_CASE("a point reads back from its text exactly", "[sweep]") {
  PointResult point;
  point.layout = "tp 2 x pp 1, \"quoted\"";
  point.gpus = 8;
  point.step_time = Duration{123'456'789'012};
  point.tokens_per_second = 0.1 + 0.2;
  point.tokens_per_second_per_gpu = 1e-300;
  point.mfu = 1.0 / 3;
  point.breakdown.compute = Duration{-5};
  point.memory = Bytes{77};
  point.capacity = Bytes{88};
  CHECK(point_of_text(answer_text(point)) == point);
  const PointResult none = no_result("line one\n\tline two: 'x' \\ \"y\" \x01");
  CHECK(point_of_text(answer_text(none)) == none);
  CHECK_THROWS_AS(point_of_text(R"({"problem":""})"), InputError);
  CHECK_THROWS_AS(point_of_text(R"({"problem":"x","gpus":1})"), InputError);
  CHECK_THROWS_AS(point_of_text("{}"), InputError);
}

TEST_CASE("the files of a sweep are those that its values name, too", "[sweep]") {
  const ScenarioFile file;
  const auto names = [&](const std::vector<std::string>& over) {
    std::vector<std::string> all;
    for (const InputFile& one : files_of(load_sweep(file.path, {}, over, false)))
      all.push_back(std::filesystem::path{one.path}.filename().string());
    return all;
  };
  CHECK(names({"layout.micro_batch=1,2"}) ==
        std::vector<std::string>{std::filesystem::path{file.path}.filename().string(), "gpt2.yaml",
                                 "dgx-h100.yaml", "h100_sxm.yaml"});
  const std::vector<std::string> two =
      names({"layout.micro_batch=1,2", "cluster.path=" + root + "/topologies/dgx-h100.yaml," +
                                           root + "/topologies/dgx-a100-80.yaml"});
  CHECK(std::find(two.begin(), two.end(), "dgx-a100-80.yaml") != two.end());
}

TEST_CASE("the key of a sweep is what its points depend on", "[sweep]") {
  const ScenarioFile file;
  SweepQuestion question{.scenario = file.path,
                         .overrides = {"layout.global_batch=8"},
                         .over = {"layout.micro_batch=1,2"}};
  SweepJob job{question};
  const JobKey key = job.load();
  CHECK(key.command == "sweep");
  CHECK(key.scenario == file.path);
  CHECK(key.arguments == std::vector<std::string>{"--set", "layout.global_batch=8", "--over",
                                                  "layout.micro_batch=1,2"});
  CHECK(key.units == 2);
  CHECK(job.specification().axes.size() == 1);
  const PointResult point = point_of_text(job.forecast(1));
  CHECK(point.told());
  question.best = true;
  CHECK(SweepJob{question}.load().arguments.back() == "--best");
}
