// The communicators that the engine makes, beside those that the forecast counts.
#include "real/jobs/nccl_use.hpp"

#include "real/engine/bound_program.hpp"
#include "sim/collective/communicator_memory.hpp"
#include "tests/catch.hpp"
#include "tests/unit/real_jobs/support.hpp"

namespace real::test {
namespace {

struct Counted {
  NcclUse engine;
  sim::Bytes forecast;
};

Counted counted(const std::vector<std::string>& layout) {
  std::vector<std::string> overrides{
      "cluster.path=" + sim::test::source_dir() + "/topologies/dgx-h100.yaml", "cluster.nodes=1",
      "cluster.gpus=8"};
  overrides.insert(overrides.end(), layout.begin(), layout.end());
  const sim::Scenario scenario = sim::load_scenario(
      sim::test::source_dir() + "/scenarios/real/llama-byte-tp2-dp2.yaml", overrides);
  const sim::Plan plan = sim::make_plan(scenario.model, scenario.layout);
  const BoundProgram bound = bind(plan, scenario.model, sim::RankId{0});
  sim::CommunicatorMemory forecast{plan, scenario.cluster};
  return {nccl_use(communicators_of(bound, {}), scenario.cluster), forecast.of_stage(0)};
}

TEST_CASE("a group has a communicator for each stream, of the size that the forecast counts") {
  // Replicas and the world (gradient norm): the same eight ranks twice.
  const Counted replicas = counted({"layout.tensor_parallel=1", "layout.data_parallel=8"});
  CHECK(replicas.engine.communicators == 2);
  CHECK(replicas.engine.buffers == replicas.forecast);
  // Weights are gathered on the stream on which gradients are reduced.
  const Counted sharded =
      counted({"layout.tensor_parallel=1", "layout.data_parallel=8", "layout.zero_stage=1"});
  CHECK(sharded.engine == replicas.engine);
}

TEST_CASE("a neighbour in a pipeline has a communicator for each direction") {
  const Counted stages = counted({"layout.tensor_parallel=2", "layout.data_parallel=2",
                                  "layout.pipeline_parallel=2", "layout.micro_batch=1"});
  // Tensor group, replicas, world; forward and backward to the second stage.
  CHECK(stages.engine.communicators == 5);
  const Counted alone = counted({"layout.tensor_parallel=2", "layout.data_parallel=4"});
  CHECK(alone.engine.buffers == alone.forecast);
  CHECK(stages.engine.buffers > stages.forecast);
}

TEST_CASE("what runs at once leaves room on a GPU of 132 SMs") {
  const Counted all =
      counted({"layout.tensor_parallel=2", "layout.data_parallel=2", "layout.pipeline_parallel=2",
               "layout.micro_batch=1", "layout.zero_stage=2"});
  CHECK(all.engine.blocks > 0);
  CHECK(all.engine.blocks < 132);
}

}  // namespace
}  // namespace real::test
