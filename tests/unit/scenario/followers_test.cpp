// Values that follow a knob that is set on top of a scenario file.
#include "sim/scenario/followers.hpp"

#include <filesystem>
#include <fstream>
#include <numeric>

#include "sim/base/input_error.hpp"
#include "sim/plan/plan.hpp"
#include "sim/scenario/scenario.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/temporary.hpp"

using namespace sim;

namespace {

const std::string root = sim::test::source_dir();
using Set = std::vector<std::string>;
using Lines = std::vector<std::string>;

Scenario shipped(const std::string& name, const Set& set) {
  return load_scenario(root + "/scenarios/" + name + ".yaml", set);
}

// Keys and new values, in order.
Lines followed(const Scenario& scenario) {
  Lines lines;
  for (const Followed& item : scenario.followed)
    if (!item.is_default)  // of the framework
      lines.push_back(item.key + "=" + item.to);
  return lines;
}

// A scenario of 16 GPUs with this layout.
Scenario with(const std::string& layout, const Set& set,
              const std::string& model = "models/gpt2.yaml") {
  const std::filesystem::path path = test::temporary_path("followers.yaml");
  std::ofstream{path} << "model: " << root << "/" << model << "\ncluster: {path: " << root
                      << "/topologies/dgx-h100.yaml, nodes: 2}\nlayout: {" << layout << "}\n";
  struct Remove {
    const std::filesystem::path& path;
    ~Remove() { std::filesystem::remove(path); }
  } const remove{path};
  return load_scenario(path.string(), set);
}

std::string first_problem(const std::string& layout, const Set& set) {
  try {
    with(layout, set);
  } catch (const InputError& error) {
    return error.problems().front().what;
  }
  return "none";
}

}  // namespace

TEST_CASE("the README's own example: tensor_parallel alone", "[scenario]") {
  const Scenario dense = shipped("llama-3.1-70b-512-h100", {"layout.tensor_parallel=4"});
  CHECK(followed(dense) == Lines{"layout.data_parallel=32"});
  CHECK(text_of(dense.followed.front()) ==
        "layout.data_parallel follows: 32 instead of 16 (512 GPUs / (tensor_parallel 4 x "
        "pipeline_parallel 4))");
  CHECK(dense.layout.virtual_stages == 5);
  const Scenario large = shipped("llama-3.1-405b-16384-h100", {"layout.tensor_parallel=4"});
  // 2,048 sequences over 256 replicas are 8 micro-batches, too few to interleave 16 stages.
  CHECK(followed(large) == Lines{"layout.data_parallel=256", "layout.virtual_stages=1",
                                 "layout.schedule=1f1b", "layout.layers_per_chunk=7 to 8"});
  CHECK(followed(shipped("llama-3.1-70b-asynctp-256-h100", {"layout.tensor_parallel=4"})) ==
        Lines{"layout.micro_batch=8"});
  CHECK(followed(shipped("mixtral-8x7b-64-h100", {"layout.tensor_parallel=4"})) ==
        Lines{"layout.sequence_parallel=true", "layout.expert_parallel=4"});
}

TEST_CASE("every shipped scenario takes any legal degree of tensor parallelism", "[scenario]") {
  int taken = 0;
  for (const auto& entry : std::filesystem::directory_iterator{root + "/scenarios"}) {
    if (entry.path().extension() != ".yaml") continue;
    const Scenario before = load_scenario(entry.path().string());
    CAPTURE(entry.path().string());
    CHECK(before.followed.empty());
    if (before.model.is_layer_list) continue;
    for (const int degree : {1, 2, 4}) {
      const Scenario after = load_scenario(entry.path().string(),
                                           {"layout.tensor_parallel=" + std::to_string(degree)});
      CHECK(after.layout.tensor_parallel == degree);
      CHECK(after.layout.world_size() == before.layout.world_size());
      CHECK(after.layout.global_batch == before.layout.global_batch);
      CHECK(layout_problems(after.layout, after.model).empty());
      ++taken;
    }
  }
  CHECK(taken >= 27);
}

TEST_CASE("a key set to what the file says changes nothing", "[scenario]") {
  const Scenario same =
      shipped("llama-3.1-405b-16384-h100",
              {"layout.pipeline_parallel=16", "layout.tensor_parallel=8", "layout.micro_batch=1"});
  CHECK(same.followed.empty());
  CHECK(same.layout.layers_per_chunk.front() == 0);
}

TEST_CASE("a depth that no longer divides takes stages, layers and micro-batches along",
          "[scenario]") {
  const std::string layout =
      "pipeline_parallel: 2, virtual_stages: 3, micro_batch: 4, sequence_length: 1024, "
      "global_batch: 64";
  CHECK(followed(with(layout, {})).empty());
  // 12 layers over 4 x 3 chunks, 64 / (4 x 4) = 4 micro-batches: all go.
  CHECK(followed(with(layout, {"layout.pipeline_parallel=4"})).empty());
  // 12 / 8 layers do not divide: as evenly as possible, the ends with one less.
  const Scenario deep = with(layout, {"layout.pipeline_parallel=8"});
  CHECK(followed(deep) == Lines{"layout.virtual_stages=1", "layout.layers_per_chunk=1 to 2"});
  CHECK(std::accumulate(deep.layout.layers_per_chunk.begin(), deep.layout.layers_per_chunk.end(),
                        0) == 12);
  CHECK(followed(with(layout, {"layout.pipeline_parallel=1"})) == Lines{"layout.virtual_stages=1"});
  // Micro-batches of 3 go into 96 / 8 sequences; 8 micro-batches are needed for nothing here.
  CHECK(followed(with(layout, {"layout.global_batch=72"})).front() == "layout.micro_batch=3");
}

TEST_CASE("runs of a pipeline follow its micro-batches", "[scenario]") {
  const std::string layout =
      "pipeline_parallel: 2, pipeline_runs: 4, micro_batch: 1, sequence_length: 1024, "
      "global_batch: 64";
  CHECK(followed(with(layout, {})).empty());
  CHECK(with(layout, {}).layout.run_batches() * 4 == with(layout, {}).layout.micro_batches());
  CHECK(followed(with(layout, {"layout.pipeline_parallel=1"})) == Lines{"layout.pipeline_runs=1"});
  // 6 micro-batches: 3 runs.
  const Scenario fewer = with(layout, {"layout.global_batch=48"});
  CHECK(fewer.layout.micro_batches() % fewer.layout.pipeline_runs == 0);
}

TEST_CASE("what is set on top never follows, and two that contradict are an error", "[scenario]") {
  const std::string layout =
      "tensor_parallel: 2, data_parallel: 8, micro_batch: 8, sequence_length: 1024, "
      "global_batch: 64";
  CHECK(followed(with(layout, {"layout.tensor_parallel=4"})) == Lines{"layout.data_parallel=4"});
  CHECK(first_problem(layout, {"layout.tensor_parallel=4", "layout.data_parallel=8"}) ==
        "tensor_parallel 4 x pipeline_parallel 1 x data_parallel 8 is 32 ranks, but the cluster "
        "has 16 GPUs (2 nodes of 8); set cluster.nodes or cluster.gpus to match");
  CHECK(first_problem(layout, {"layout.tensor_parallel=1", "layout.micro_batch=8"}) ==
        "global_batch is 64, no multiple of micro_batch x data_parallel = 8 x 16 = 128");
  CHECK(followed(with(layout, {"layout.tensor_parallel=1"})) ==
        Lines{"layout.data_parallel=16", "layout.micro_batch=4"});
  CHECK(first_problem(layout, {"layout.tensor_parallel=3"}) ==
        "tensor_parallel 3 x pipeline_parallel 1 is 3, which does not divide the GPUs: the "
        "cluster has 16 GPUs (2 nodes of 8)");
}

TEST_CASE("replicas that alone are set come with their GPUs", "[scenario]") {
  const std::string layout =
      "tensor_parallel: 2, data_parallel: 8, micro_batch: 4, sequence_length: 1024, "
      "global_batch: 64";
  const Scenario more = with(layout, {"layout.data_parallel=16"});
  CHECK(followed(more) == Lines{"cluster.gpus=32 on 4 nodes"});
  CHECK(more.cluster.nodes() == 4);
  CHECK(followed(with(layout, {"cluster.nodes=4"})) == Lines{"layout.data_parallel=16"});
  CHECK(first_problem(layout, {"layout.data_parallel=16", "cluster.nodes=2"}).find("32 ranks") !=
        std::string::npos);
}

TEST_CASE("another cluster keeps the number of GPUs", "[scenario]") {
  const std::string layout = "data_parallel: 16, sequence_length: 1024, global_batch: 64";
  const Scenario mesh = with(layout, {"cluster.path=" + root + "/topologies/a100-pcie.yaml"});
  CHECK(mesh.layout.world_size() == 16);
  const Scenario box = with(layout, {"cluster.path=" + root + "/topologies/torus-3d-h100.yaml"});
  CHECK(box.layout.world_size() == 16);
  const Scenario racks = with(layout, {"cluster.path=" + root + "/topologies/gb200-nvl72.yaml"});
  CHECK(followed(racks).front() == "cluster.nodes=1");
  CHECK(racks.layout.world_size() == 16);
  CHECK(racks.layout.data_parallel == 16);
}

TEST_CASE("the other followers", "[scenario]") {
  const std::string layout = "micro_batch: 1, sequence_length: 1024, global_batch: 64, ";
  CHECK(followed(with(layout + "tensor_parallel: 2, sequence_parallel: true",
                      {"layout.tensor_parallel=1"})) == Lines{"layout.sequence_parallel=false"});
  CHECK(followed(with(layout + "zero_stage: 3, shard_group: 8", {"layout.tensor_parallel=4"})) ==
        Lines{"layout.shard_group=4"});
  CHECK(followed(with(layout + "recompute: full, recompute_every: 2",
                      {"layout.recompute=selective"})) == Lines{"layout.recompute_every=1"});
  CHECK(followed(with(layout + "pipeline_parallel: 2, virtual_stages: 3",
                      {"layout.schedule=zb-h1"})) == Lines{"layout.virtual_stages=1"});
  CHECK(followed(with(layout + "pipeline_parallel: 2, schedule: zb-h1",
                      {"layout.virtual_stages=3"})) == Lines{"layout.schedule=interleaved"});
  CHECK(followed(with(layout + "pipeline_parallel: 2, layers_per_stage: [5, 7]",
                      {"layout.pipeline_parallel=4"})) == Lines{"layout.layers_per_chunk=3 to 3"});
  const Scenario context = with(layout + "placement: [tp, dp, pp]", {"layout.context_parallel=2"});
  CHECK(followed(context) == Lines{"layout.placement=cp behind tp"});
  CHECK(context.layout.placement[1] == Dimension::context);
}

TEST_CASE("layers are spread as evenly as possible, the last and the first chunk with fewer",
          "[scenario]") {
  CHECK(nearly_even(126, 16) == std::vector<int>{7, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 7});
  CHECK(nearly_even(11, 4) == std::vector<int>{3, 3, 3, 2});
  CHECK(nearly_even(9, 4) == std::vector<int>{2, 3, 2, 2});
  CHECK(nearly_even(8, 4) == std::vector<int>{2, 2, 2, 2});
}

TEST_CASE("twice the rate of an NVLink is twice its usable rate", "[scenario]") {
  const Scenario twice =
      shipped("llama-3.1-70b-512-h100", {"cluster.change.node.nvlink.rate=50 GB/s"});
  CHECK(followed(twice) == Lines{"cluster.change.node.nvlink.usable=x2"});
  const Route route = twice.cluster.route(GpuId{0}, GpuId{1});
  CHECK(route.bandwidth.in_bytes_per_second() == Approx(2 * 370.8e9));
  const Scenario half = shipped("llama-3.1-70b-512-h100", {"cluster.change.node.nvlink.rate=x0.5"});
  CHECK(half.cluster.route(GpuId{0}, GpuId{1}).bandwidth.in_bytes_per_second() ==
        Approx(370.8e9 / 2));
  CHECK(shipped("llama-3.1-70b-512-h100", {"cluster.change.node.nvlink.rate=50 GB/s",
                                           "cluster.change.node.nvlink.usable=30 GB/s"})
            .followed.empty());
  for (const char* none : {"fast", "-1 GB/s"}) {
    try {
      shipped("llama-3.1-70b-512-h100", {std::string{"cluster.change.node.nvlink.rate="} + none});
      FAIL("a rate that is none was taken");
    } catch (const InputError& error) {
      // The problems are about what was set, not about what would follow.
      for (const Problem& problem : error.problems())
        CHECK(problem.what.find("'node.nvlink.usable' is changed") == std::string::npos);
    }
  }
}

// The file states no bandwidth of PCIe: it follows of itself.
TEST_CASE("a value that the file leaves to its default has no follower", "[scenario]") {
  const Scenario slow =
      shipped("llama-3.1-70b-512-h100", {"cluster.change.node.pcie.generation=4"});
  CHECK(slow.followed.empty());
  CHECK(slow.cluster.route(GpuId{0}, GpuId{8}).bandwidth.in_bytes_per_second() == Approx(24e9));
}

TEST_CASE("an xGMI follows its rate as an NVLink does", "[scenario]") {
  const Scenario before =
      with("sequence_length: 1024, global_batch: 64",
           {"cluster.path=" + root + "/topologies/mi300x-8.yaml", "cluster.nodes=1"});
  const Scenario twice = with("sequence_length: 1024, global_batch: 64",
                              {"cluster.path=" + root + "/topologies/mi300x-8.yaml",
                               "cluster.nodes=1", "cluster.change.node.xgmi.rate=x2"});
  const auto rate = [](const Scenario& scenario) {
    return scenario.cluster.route(GpuId{0}, GpuId{1}).bandwidth.in_bytes_per_second();
  };
  CHECK(rate(twice) == Approx(2 * rate(before)));
}
