// An exported file is read back as the scenario that it was: the shipped ones, and random ones.
// That the file agrees with its scenario but for the notes is checked by export_scenario() itself,
// which throws std::logic_error; here is what the notes may be, and that the check can fail.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "sim/base/input_error.hpp"
#include "sim/config/reader.hpp"
#include "sim/interop/handover.hpp"
#include "sim/model/transformer.hpp"
#include "sim/plan/plan.hpp"
#include "sim/scenario/write_scenario.hpp"
#include "sim/scripts/scripts.hpp"
#include "tests/catch.hpp"
#include "tests/property/random_scenario.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/temporary.hpp"

using namespace sim;
namespace fs = std::filesystem;

namespace {

const std::string root = sim::test::source_dir();
constexpr std::array targets{Target::megatron, Target::torchtitan, Target::deepspeed, Target::nemo};

std::vector<std::string> shipped() {
  std::vector<std::string> paths;
  for (const char* folder : {"/scenarios", "/scenarios/real"})
    for (const fs::directory_entry& entry : fs::directory_iterator{root + folder})
      if (entry.path().extension() == ".yaml") paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

// Loads `text` as a scenario file that lies in `folder`.
Scenario load_text(const std::string& text, const fs::path& folder) {
  fs::create_directories(folder);
  const fs::path path = folder / "scenario.yaml";
  std::ofstream{path} << text;
  Scenario scenario = load_scenario(path.string());
  fs::remove_all(folder);
  return scenario;
}

// NOLINTNEXTLINE(readability-function-size): a check per field
void same(const Scenario& a, const Scenario& b) {
  CHECK(a.name == b.name);
  CHECK(a.layout == b.layout);
  CHECK(a.framework == b.framework);
  CHECK(a.training == b.training);
  CHECK(a.flops.attention == b.flops.attention);
  CHECK(a.model.shape == b.model.shape);
  CHECK(a.model.parameters() == b.model.parameters());
  CHECK(a.cluster.nodes() == b.cluster.nodes());
  CHECK(a.cluster.name() == b.cluster.name());
  CHECK(fs::weakly_canonical(a.cluster_path) == fs::weakly_canonical(b.cluster_path));
  const SimulationOptions& x = a.options;
  const SimulationOptions& y = b.options;
  CHECK(x.collectives == y.collectives);
  CHECK(x.fold == y.fold);
  CHECK(x.graphs == y.graphs);
  CHECK(x.graph_scope == y.graph_scope);
  CHECK(x.jitter == y.jitter);
  CHECK(x.seed == y.seed);
  CHECK(x.device_spread == y.device_spread);
  CHECK(x.tensor_choice.algorithm == y.tensor_choice.algorithm);
  CHECK(x.data_choice.algorithm == y.data_choice.algorithm);
  CHECK(x.tensor_choice.protocol == y.tensor_choice.protocol);
  CHECK(x.data_choice.server_shards == y.data_choice.server_shards);
  REQUIRE(x.stragglers.size() == y.stragglers.size());
  for (std::size_t i = 0; i < x.stragglers.size(); ++i) {
    CHECK(x.stragglers[i].rank.value == y.stragglers[i].rank.value);
    CHECK(x.stragglers[i].factor == y.stragglers[i].factor);
  }
  REQUIRE(a.faults.size() == b.faults.size());
  for (std::size_t i = 0; i < a.faults.size(); ++i) {
    CHECK(a.faults[i].where == b.faults[i].where);
    CHECK(a.faults[i].factor == b.faults[i].factor);
  }
}

// Which targets take a scenario.
std::set<Target> takers(const Scenario& scenario) {
  std::set<Target> found;
  for (const Target target : targets) {
    try {
      const Exported exported = export_scenario(scenario, target, "");
      CHECK_FALSE(exported.text.empty());
      found.insert(target);
    } catch (const InputError& error) {
      CHECK_FALSE(error.problems().empty());
    }
  }
  return found;
}

}  // namespace

TEST_CASE("every shipped scenario is written in full and read back", "[interop]") {
  const fs::path folder = test::temporary_path("interop/a");
  for (const std::string& path : shipped()) {
    CAPTURE(path);
    const Scenario scenario = load_scenario(path);
    const Scenario again = load_text(scenario_yaml(scenario, folder.string()), folder);
    same(scenario, again);
  }
}

TEST_CASE("a scenario that carries its model, and what-ifs, are written and read back",
          "[interop]") {
  const fs::path folder = test::temporary_path("interop/b");
  Scenario scenario =
      load_scenario(root + "/scenarios/llama-3.1-70b-512-h100.yaml",
                    {"cluster.change.node.nics.bandwidth=x0.5",
                     "cluster.change.fabric.oversubscription=2", "cluster.device.memory=141 GiB",
                     "simulation.stragglers=[{rank: 3, factor: 1.25}]", "simulation.jitter=0.1"});
  scenario.model_path.clear();
  const Scenario again = load_text(scenario_yaml(scenario, folder.string()), folder);
  same(scenario, again);
  REQUIRE(again.changes.cluster.size() == 2);
  CHECK(again.changes.cluster[0].key == "node.nics.bandwidth");
  CHECK(again.changes.cluster[0].value == "x0.5");
  CHECK(again.changes.device[0].value == "141 GiB");
  CHECK(again.cluster.device().memory == scenario.cluster.device().memory);
}

TEST_CASE("which frameworks take the shipped scenarios", "[interop]") {
  const auto of = [&](const char* name) {
    return takers(load_scenario(root + "/scenarios/" + name + ".yaml"));
  };
  const std::set<Target> megatron{Target::megatron, Target::nemo};
  CHECK(of("llama-3.1-70b-512-h100") == megatron);
  CHECK(of("llama-3.1-405b-16384-h100") == megatron);
  CHECK(of("llama-3.1-8b-fsdp-8-h100") ==
        std::set<Target>{Target::megatron, Target::torchtitan, Target::deepspeed, Target::nemo});
  CHECK(of("gpt2-124m-8-h100") ==
        std::set<Target>{Target::megatron, Target::deepspeed, Target::nemo});
  CHECK(of("gpt3-175b-1024-a100") ==
        std::set<Target>{Target::megatron, Target::deepspeed, Target::nemo});
  CHECK(of("bert-large-32-v100") == std::set<Target>{Target::deepspeed});
  CHECK(of("resnet50-16-v100").empty());
}

TEST_CASE("random scenarios come back from every framework that takes them", "[interop]") {
  std::map<Target, int> taken;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    const test::RandomScenario random = test::random_scenario(seed);
    CAPTURE(seed, random.yaml);
    for (const Target target : takers(random.scenario))
      ++taken[target];
    const fs::path folder = test::temporary_path("interop/c");
    Scenario carried = test::random_scenario(seed).scenario;
    carried.model_path.clear();
    same(carried, load_text(scenario_yaml(carried, folder.string()), folder));
  }
  // Enough of them to mean something; torchtitan knows no models of such sizes.
  CHECK(taken[Target::megatron] > 30);
  CHECK(taken[Target::nemo] > 30);
  CHECK(taken[Target::deepspeed] > 30);
}

TEST_CASE("layouts of a torchtitan flavor come back from torchtitan", "[interop]") {
  int taken = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    test::Dice dice{seed};
    Scenario scenario = load_scenario(root + "/scenarios/llama-3.1-8b-fsdp-8-h100.yaml");
    Layout& layout = scenario.layout;
    layout.tensor_parallel = dice.pick(std::array{1, 1, 2, 4});
    layout.context_parallel = dice.pick(std::array{1, 1, 2});
    layout.pipeline_parallel = dice.pick(std::array{1, 2, 4});
    layout.data_parallel = dice.pick(std::array{1, 2, 4, 8});
    layout.sequence_parallel = layout.tensor_parallel > 1;
    layout.overlap_tensor_wgrad = dice.coin();
    if (dice.coin()) {
      scenario.framework = torchtitan_framework(dice.coin(), dice.coin(), dice.coin());
      scenario.framework.execution.stops_recomputation = dice.coin();
      layout.overlap_tensor_wgrad = false;
      layout.overlap_tensor_products = layout.tensor_parallel > 1 && dice.coin() &&
                                       scenario.framework.layer_norm == NormForm::compiled;
      run_with(scenario.framework, scenario.model);
    }
    layout.overlap_pipeline = dice.coin();
    layout.micro_batch = 1 + dice.below(2);
    layout.global_batch = layout.micro_batch * layout.data_parallel * 8;
    layout.context_exchange = dice.coin() ? ContextExchange::ring : ContextExchange::all_gather;
    if (layout.pipeline_parallel > 1 && dice.coin()) {
      layout.schedule = Schedule::interleaved;
      layout.virtual_stages = 2;
    } else if (dice.below(4) == 0) {
      layout.schedule = Schedule::gpipe;
    }
    if (layout.chunks() > 1 && dice.coin()) {
      layout.layers_per_chunk.assign(static_cast<std::size_t>(layout.chunks()),
                                     32 / layout.chunks());
      --layout.layers_per_chunk.front();
      ++layout.layers_per_chunk.back();
    }
    layout.zero_stage = layout.world_size() == layout.data_parallel && dice.coin() ? 0 : 3;
    layout.reshard_after_forward = dice.coin();
    if (scenario.framework.execution.eight_bit == EightBit::torchao && dice.coin()) {
      layout.compute_dtype = DType::fp8;
      layout.eight_bit_parameters = layout.zero_stage == 3 && layout.replicas() > 1 && dice.coin();
      if (!layout.eight_bit_parameters && dice.coin())
        scenario.framework.execution.eight_bit =
            dice.coin() ? EightBit::torchao_rowwise : EightBit::torchao_rowwise_with_gw_hp;
    }
    if (layout.zero_stage == 3 && layout.data_parallel > 2 && dice.coin())
      layout.shard_group = layout.replicas() / 2;
    layout.recompute_every = layout.recompute == Recompute::full ? 1 + dice.below(3) : 1;
    CAPTURE(seed);
    REQUIRE(layout_problems(layout, scenario.model).empty());
    const Exported out = export_scenario(scenario, Target::torchtitan, "");
    CHECK_FALSE(out.text.empty());
    ++taken;
  }
  CHECK(taken == 200);
}

TEST_CASE("the check of what was written sees every difference", "[interop]") {
  const Scenario scenario = load_scenario(root + "/scenarios/llama-3.1-70b-512-h100.yaml");
  const std::string text = export_scenario(scenario, Target::megatron, "").text;
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    const std::size_t at = other.find(from);
    REQUIRE(at != std::string::npos);
    other.replace(at, from.size(), to);
    return differences(scenario, import_megatron(parse_flags(other, "args"),
                                                 {.gpus = scenario.layout.world_size()}));
  };
  CHECK(with("--bf16", "--bf16").empty());
  CHECK(with("--num-layers 80", "--num-layers 60") == std::vector<std::string>{"model"});
  CHECK(with("--micro-batch-size 1", "--micro-batch-size 2") ==
        std::vector<std::string>{"layout.micro_batch"});
  CHECK(with("  --sequence-parallel\n", "") ==
        std::vector<std::string>{"layout.sequence_parallel"});
}
