#include "sim/sweep/sweep.hpp"

#include <fstream>
#include <iterator>

#include "sim/base/input_error.hpp"
#include "sim/sweep/distributed_sweep.hpp"
#include "sim/sweep/scaling.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/temporary.hpp"

using namespace sim;

namespace {

const std::string root = sim::test::source_dir();

struct ScenarioFile {
  std::string path = test::temporary_path("sweep.yaml").string();
  explicit ScenarioFile(const std::string& more = {}) {
    std::ofstream{path} << "model: " << root << "/models/gpt2.yaml\ncluster: {path: " << root
                        << "/topologies/dgx-h100.yaml, nodes: 2}\nlayout: {tensor_parallel: 2, "
                           "sequence_length: 1024, global_batch: 64}\n"
                           "framework: {separate_update: false}\n"
                        << more;
  }
  ~ScenarioFile() { std::remove(path.c_str()); }
  ScenarioFile(const ScenarioFile&) = delete;
  ScenarioFile& operator=(const ScenarioFile&) = delete;
};

}  // namespace

TEST_CASE("every point of a sweep is the scenario with its keys set", "[sweep]") {
  const ScenarioFile file;
  const Sweep sweep = run_sweep(
      load_sweep(file.path, {},
                 {"layout.micro_batch=1,2", "cluster.change.node.nics.bandwidth=x0.1,x1"}, false));
  REQUIRE(sweep.points.size() == 4);
  const PointResult alone =
      forecast_point(file.path, {"layout.micro_batch=2", "cluster.change.node.nics.bandwidth=x0.1"},
                     LayoutMode::fixed);
  CHECK(sweep.points[2] == alone);
  CHECK(sweep.points[0].step_time > sweep.points[1].step_time);
}

TEST_CASE("a swept knob takes the others along, and every point tells it", "[sweep]") {
  const std::string path = root + "/scenarios/llama-3.1-70b-512-h100.yaml";
  const Sweep sweep = run_sweep(load_sweep(path, {}, {"layout.tensor_parallel=4,8"}, false));
  CHECK(sweep.points[0].notes ==
        std::vector<std::string>{"layout.data_parallel follows: 32 instead of 16 (512 GPUs / "
                                 "(tensor_parallel 4 x pipeline_parallel 4))"});
  CHECK(sweep.points[1].notes.empty());
  CHECK(point_of_text(answer_text(sweep.points[0])) == sweep.points[0]);
  CHECK(sweep_json(sweep).find("data_parallel follows: 32") != std::string::npos);
}

TEST_CASE("a stretch of a parameter that moves no step says what bounds it", "[sweep]") {
  const std::string path = root + "/scenarios/llama-3.1-70b-512-h100.yaml";
  const Sweep sweep = run_sweep(load_sweep(
      path, {}, {"cluster.change.node.nics.bandwidth=100 Gbps,400 Gbps,800 Gbps"}, false));
  CHECK(sweep.notes ==
        std::vector<std::string>{"cluster.change.node.nics.bandwidth from 400 Gbps to 800 Gbps "
                                 "does not change the step: PCIe's 48 GB/s bounds it"});
  CHECK(sweep_table(sweep).find("PCIe's 48 GB/s bounds it") != std::string::npos);
}

TEST_CASE("a point that is wrong is listed with its reason", "[sweep]") {
  const ScenarioFile file;
  const Sweep sweep = run_sweep(load_sweep(file.path, {}, {"layout.micro_batch=1,3"}, false));
  CHECK(sweep.points[0].told());
  CHECK(sweep.points[1].problem.find("micro_batch") != std::string::npos);
  CHECK(sweep_csv(sweep).find("micro_batch") != std::string::npos);
  CHECK_THROWS_AS(run_sweep(load_sweep(file.path, {}, {"layout.micro_batch=3,5"}, false)),
                  InputError);
}

TEST_CASE("a text that is not saved is forecast as its file would be", "[sweep]") {
  const ScenarioFile file;
  std::ifstream stream{file.path};
  const std::string text{std::istreambuf_iterator<char>{stream}, {}};
  const std::vector<std::string> set{"layout.micro_batch=1"};
  CHECK(forecast_point({file.path, text}, set, LayoutMode::fixed) ==
        forecast_point(file.path, set, LayoutMode::fixed));
  CHECK_FALSE(forecast_point({file.path, "layout: {}\n"}, set, LayoutMode::fixed).told());
}

TEST_CASE("the sweep section is read, and --over stands in for it", "[sweep]") {
  const ScenarioFile file{"sweep: {over: {layout.micro_batch: [1, 2], layout.zero_stage: 0..1}}\n"};
  CHECK(load_sweep(file.path, {}, {}, false).axes ==
        std::vector<Axis>{{"layout.micro_batch", {"1", "2"}}, {"layout.zero_stage", {"0", "1"}}});
  CHECK(load_sweep(file.path, {}, {"layout.micro_batch=4"}, false).axes ==
        std::vector<Axis>{{"layout.micro_batch", {"4"}}});
  CHECK_THROWS_AS(load_sweep(ScenarioFile{}.path, {}, {}, false), InputError);
  CHECK_THROWS_AS(load_sweep(ScenarioFile{"sweep: {ovr: {}}\n"}.path, {}, {}, false), InputError);
  CHECK_THROWS_AS(load_sweep(ScenarioFile{"sweep: {over: {a: [[1]]}}\n"}.path, {}, {}, false),
                  InputError);
  CHECK_THROWS_AS(load_sweep(file.path, {}, {"a=1", "a=2"}, false), InputError);
}

TEST_CASE("weak scaling grows the batch, strong scaling does not", "[sweep]") {
  const ScenarioFile file;
  const std::vector<ScalingCurve> curves =
      scaling_curves({.path = file.path, .overrides = {}, .gpus = {8, 16, 64}},
                     {ScalingKind::strong, ScalingKind::weak});
  REQUIRE(curves.size() == 2);
  CHECK(curves[0].points[2].global_batch == 64);
  CHECK(curves[1].points[2].global_batch == 512);
  CHECK(curves[0].points[0].efficiency == 1);
  CHECK(curves[0].points[2].efficiency < curves[1].points[2].efficiency);
  CHECK(curves[1].points[1].result.gpus == 16);
  CHECK_THROWS_AS(
      scaling_curves({.path = file.path, .overrides = {}, .gpus = {9}}, {ScalingKind::weak}),
      InputError);
}

TEST_CASE("the point where communication overtakes compute lies where the step says so",
          "[sweep]") {
  const ScenarioFile file;
  const std::vector<std::string> slow{"cluster.change.node.nics.bandwidth=x0.05"};
  const std::vector<ScalingCurve> curves = scaling_curves(
      {.path = file.path, .overrides = slow, .gpus = {2, 64}}, {ScalingKind::strong});
  REQUIRE(curves[0].communication_bound_from);
  const int from = *curves[0].communication_bound_from;
  CHECK(from > 2);
  CHECK(from <= 64);
}

TEST_CASE("what followed the values of points is told once, with the first of them", "[sweep]") {
  Sweep sweep{.specification = {.path = "",
                                .overrides = {},
                                .axes = {{"layout.micro_batch", {"1", "2", "4"}}}},
              .points = std::vector<PointResult>(3)};
  sweep.points[1].notes = {"a follows"};
  sweep.points[2].notes = {"a follows", "b follows"};
  CHECK(notes_of_points(sweep) == std::vector<std::string>{"layout.micro_batch=2: a follows",
                                                           "layout.micro_batch=4: b follows"});
}
