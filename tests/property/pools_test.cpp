// Clusters of pools: nodes of several kinds on one fabric.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "sim/base/input_error.hpp"
#include "sim/engine/simulate.hpp"
#include "sim/report/stage_memory.hpp"
#include "sim/scenario/scenario.hpp"
#include "tests/catch.hpp"
#include "tests/temporary.hpp"

namespace sim {
namespace {

constexpr const char* joined_by =
    "fabric: {kind: fat_tree, nodes_per_leaf: 2, link: 400 Gbps, switch_latency: 130 ns}\n"
    "sources: [test]\n";

// A file that is removed with it.
class PoolFile {
 public:
  PoolFile(const std::string& name, const std::string& text)
      : path_{test::temporary_path(name).string()} {
    std::ofstream{path_} << text;
  }
  ~PoolFile() { std::filesystem::remove(path_); }
  PoolFile(const PoolFile&) = delete;
  PoolFile& operator=(const PoolFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string pools_of(const std::string& first, int nodes, const std::string& second, int others) {
  return fmt::format(
      "name: pools\npools:\n  - {{cluster: {}, nodes: {}}}\n  - {{cluster: {}, "
      "nodes: {}}}\n{}",
      first, nodes, second, others, joined_by);
}

Scenario job(const std::string& cluster, const std::string& layout) {
  const PoolFile machine{"pools.yaml", cluster};
  const PoolFile file{"job.yaml",
                      fmt::format("model: llama-3.1-8b\ncluster: {{path: {}}}\nlayout: {{{}, "
                                  "sequence_length: 4096}}\n",
                                  machine.path(), layout)};
  return load_scenario(file.path());
}

Duration step_of(const Scenario& scenario, SimulationOptions options) {
  return simulate(make_plan(scenario.model, scenario.layout), scenario.cluster, options)
             .timeline.end -
         TimePoint{};
}

Duration step_of(const std::string& cluster, const std::string& layout) {
  const Scenario scenario = job(cluster, layout);
  return step_of(scenario, scenario.options);
}

std::string refusal(const std::string& cluster, const std::string& layout) {
  try {
    job(cluster, layout);
  } catch (const InputError& error) {
    return error.problems().front().what;
  }
  return "";
}

constexpr const char* by_stages =
    "tensor_parallel: 8, pipeline_parallel: 4, global_batch: 16, micro_batch: 1";
constexpr const char* by_replicas =
    "tensor_parallel: 8, data_parallel: 4, global_batch: 16, micro_batch: 1";

}  // namespace

TEST_CASE("pools of the same nodes are the machine of these nodes", "[pools]") {
  for (const char* layout : {by_stages, by_replicas}) {
    const Duration all = step_of(pools_of("dgx-h100", 1, "dgx-h100", 3), layout);
    CHECK(step_of(pools_of("dgx-h100", 2, "dgx-h100", 2), layout) == all);
    const PoolFile machine{"pools.yaml", pools_of("dgx-h100", 3, "dgx-h100", 1)};
    const Cluster cluster = Cluster::load(machine.path());
    CHECK(cluster.gpus() == 32);
    CHECK(cluster.route({0}, {31}).hops.size() == cluster.route({0}, {23}).hops.size());
  }
}

TEST_CASE("a mixed machine is no faster than its faster nodes, and no slower than its slower ones",
          "[pools]") {
  for (const char* layout : {by_stages, by_replicas}) {
    const Duration fast = step_of(pools_of("dgx-h100", 2, "dgx-h100", 2), layout);
    const Duration slow = step_of(pools_of("dgx-a100-80", 2, "dgx-a100-80", 2), layout);
    const Duration mixed = step_of(pools_of("dgx-h100", 2, "dgx-a100-80", 2), layout);
    CHECK(fast < mixed);
    CHECK(mixed <= slow);
  }
}

TEST_CASE("slow replicas with fewer micro-batches, and slow stages with fewer layers, help",
          "[pools]") {
  const std::string mixed = pools_of("dgx-h100", 2, "dgx-a100-80", 2);
  const Duration even = step_of(mixed, by_replicas);
  CHECK(step_of(mixed, by_replicas + std::string{", replica_batches: [6, 6, 2, 2]"}) < even);
  CHECK(step_of(mixed, by_replicas + std::string{", replica_batches: [4, 4, 4, 4]"}) == even);
  CHECK(step_of(mixed, by_replicas + std::string{", replica_batches: [1, 1, 7, 7]"}) > even);
  CHECK(step_of(mixed, by_stages + std::string{", layers_per_chunk: [11, 11, 5, 5]"}) <
        step_of(mixed, by_stages));
}

TEST_CASE("a mixed machine folds to the picosecond", "[pools]") {
  const std::string mixed = pools_of("dgx-h100", 2, "dgx-a100-80", 2);
  for (const std::string& layout :
       {std::string{by_stages}, std::string{by_replicas},
        by_replicas + std::string{", replica_batches: [5, 5, 3, 3]"},
        std::string{"tensor_parallel: 4, pipeline_parallel: 2, global_batch: 16, zero_stage: 1"}}) {
    const Scenario scenario = job(mixed, layout);
    SimulationOptions whole = scenario.options;
    whole.fold = false;
    CHECK(step_of(scenario, scenario.options) == step_of(scenario, whole));
  }
}

TEST_CASE("each stage has the memory of its pool", "[pools]") {
  const Scenario scenario = job(pools_of("dgx-h200", 2, "dgx-a100-80", 2), by_stages);
  const std::vector<StageMemory> stages =
      stage_memory(make_plan(scenario.model, scenario.layout), scenario.cluster);
  REQUIRE(stages.size() == 4);
  CHECK(stages[0].capacity == scenario.cluster.of_pool(0).device().memory);
  CHECK(stages[3].capacity == scenario.cluster.of_pool(1).device().memory);
  CHECK(stages[0].capacity > stages[3].capacity);
}

TEST_CASE("pools and batches that do not go together are refused by name", "[pools]") {
  const auto starts = [](const std::string& text, const std::string& with) {
    INFO(text);
    CHECK(text.rfind(with, 0) == 0);
  };
  starts(refusal(pools_of("dgx-h100", 2, "mi300x-8", 2), by_replicas),
         "H100 SXM and MI300X have no library of collectives in common");
  starts(refusal(pools_of("dgx-h100", 2, "dgx-a100", 2), by_replicas), "cannot read the file");
  const std::string mixed = pools_of("dgx-h100", 2, "dgx-a100-80", 2);
  starts(refusal(mixed, by_replicas + std::string{", replica_batches: [8, 8]"}),
         "replica_batches has 2 entries; data_parallel is 4");
  starts(refusal(mixed, by_replicas + std::string{", replica_batches: [6, 6, 2, 1]"}),
         "global_batch is 16, but replica_batches sums to 15");
  starts(
      refusal(mixed, by_replicas + std::string{", replica_batches: [6, 6, 2, 2], zero_stage: 3"}),
      "replicas have micro-batches of their own number, but under zero_stage 2 and 3");
  starts(refusal(mixed,
                 "tensor_parallel: 8, pipeline_parallel: 2, virtual_stages: 2, "
                 "data_parallel: 2, global_batch: 8, replica_batches: [5, 3]"),
         "3 micro-batches");
}

}  // namespace sim
