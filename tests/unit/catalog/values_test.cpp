// Values of a scenario by their keys: read, changed, and which are legal.
#include "sim/catalog/values.hpp"

#include <algorithm>
#include <filesystem>
#include <set>

#include "sim/catalog/catalog.hpp"
#include "sim/scenario/layout_values.hpp"
#include "sim/scenario/sources.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"

using namespace sim;

namespace {

const std::string root = test::source_dir();

Scenario shipped(const std::string& name, const std::vector<std::string>& set = {}) {
  return load_scenario(root + "/scenarios/" + name + ".yaml", set);
}

std::vector<std::string> legal(const std::vector<LegalValue>& values) {
  std::vector<std::string> texts;
  for (const LegalValue& value : values)
    if (value.is_legal()) texts.push_back(value.value);
  return texts;
}

std::string problem_of(const std::vector<LegalValue>& values, const std::string& text) {
  for (const LegalValue& value : values)
    if (value.value == text) return value.problem;
  return "not among the values";
}

}  // namespace

TEST_CASE("the current value of a key is what the file says, or its default", "[catalog]") {
  const Scenario scenario =
      shipped("llama-3.1-70b-512-h100", {"cluster.change.node.nics.bandwidth=x0.5",
                                         "layout.bucket=40 MiB", "cluster.device.sms=100"});
  CHECK(current_value(scenario, "layout.tensor_parallel") ==
        std::to_string(scenario.layout.tensor_parallel));
  CHECK(current_value(scenario, "layout.bucket") == "40 MiB");
  CHECK(current_value(scenario, "layout.first_bucket") == "auto");
  CHECK(current_value(scenario, "layout.overlap.gradients") == "true");
  CHECK(current_value(scenario, "simulation.collectives") == "fluid");
  CHECK(current_value(scenario, "cluster.gpus") == "512");
  CHECK(current_value(scenario, "cluster.gpus_per_node") == "8");
  CHECK(current_value(scenario, "cluster.change.node.nics.bandwidth") == "200 Gbps");
  CHECK(current_value(scenario, "cluster.change.node.nvlink.rate") == "25 GB/s");
  CHECK(current_value(scenario, "cluster.device.sms") == "100");
  CHECK(current_value(scenario, "cluster.device.gemm.bf16.peak") == "989.4 TFLOP/s");
  CHECK(current_value(scenario, "model.transformer.hidden") == "8192");
  CHECK(current_value(scenario, "layout.expert_parallel") == std::nullopt);
  CHECK(current_value(scenario, "budget.tokens") == std::nullopt);
  REQUIRE_THROWS_WITH(current_value(scenario, "layout.tensor_paralel"),
                      "key: error: unknown key 'layout.tensor_paralel'; did you mean "
                      "'layout.tensor_parallel'?");
}

// A window does so: it shows a value, and writes it back unchanged.
TEST_CASE("setting a key to its current value changes nothing", "[catalog]") {
  const Scenario scenario = shipped("mixtral-8x7b-64-h100");
  int set = 0;
  for (const auto& [path, value] : current_values(scenario)) {
    const Key& key = require_key(path);
    if (key.only_in_file || value.find('#') != std::string::npos) continue;
    // A name of a file, a description, or a section that is set as a whole.
    if (path == "name" || path.starts_with("cluster.device.reserved")) continue;
    CAPTURE(path, value);
    std::string override = path;
    override += '=';
    override += value;
    const Scenario again = shipped("mixtral-8x7b-64-h100", {override});
    CHECK(again.layout == scenario.layout);
    CHECK(again.framework == scenario.framework);
    CHECK(again.cluster.gpus() == scenario.cluster.gpus());
    ++set;
  }
  CHECK(set > 150);
}

TEST_CASE("legal values of a degree of parallelism are those that load, the others have a reason",
          "[catalog]") {
  const Scenario scenario = shipped("llama-3.1-8b-fsdp-8-h100");
  const std::vector<LegalValue> values = legal_values(scenario, "layout.tensor_parallel");
  CHECK(legal(values) == std::vector<std::string>{"1", "2", "4", "8"});
  const Scenario large = shipped("llama-3.1-70b-512-h100");
  const std::vector<LegalValue> wide = legal_values(large, "layout.tensor_parallel");
  // 64 heads: 128 tensor ranks have none.
  CHECK(problem_of(wide, "128").find("does not divide 64 heads") != std::string::npos);
  CHECK(problem_of(wide, "3") == "not among the values");
  for (const LegalValue& value : wide) {
    CAPTURE(value.value);
    bool loads = true;
    try {
      static_cast<void>(
          shipped("llama-3.1-70b-512-h100", {"layout.tensor_parallel=" + value.value}));
    } catch (const std::exception&) {
      loads = false;
    }
    CHECK(loads == value.is_legal());
  }
}

TEST_CASE("what is set beside a key does not follow it", "[catalog]") {
  const Scenario scenario = shipped("llama-3.1-70b-512-h100");
  const std::string fixed = "layout.data_parallel=" + std::to_string(scenario.layout.data_parallel);
  CHECK(legal(legal_values(scenario, "layout.tensor_parallel")).size() > 1);
  CHECK(legal(legal_values(scenario, "layout.tensor_parallel", {fixed})) ==
        std::vector<std::string>{std::to_string(scenario.layout.tensor_parallel)});
}

TEST_CASE("legal values of words, booleans and free numbers", "[catalog]") {
  const Scenario scenario = shipped("llama-3.1-8b-fsdp-8-h100");
  CHECK_FALSE(legal(legal_values(scenario, "layout.sequence_parallel")).empty());
  const std::vector<LegalValue> schedules = legal_values(scenario, "layout.schedule");
  CHECK(schedules.size() == words_of(Schedule{}).size());
  CHECK(problem_of(schedules, "interleaved") ==
        "schedule interleaved needs pipeline_parallel of 2 or more; it is 1");
  CHECK(legal_values(scenario, "layout.sequence_length").empty());
  CHECK(legal_values(scenario, "cluster.change.node.nics.bandwidth").empty());
  CHECK(legal_values(scenario, "model.transformer.norm").empty());
  CHECK(legal(legal_values(scenario, "layout.zero_stage")).size() == 4);
}

TEST_CASE("a layout opened as --set is the layout, whatever the file says", "[catalog]") {
  int pairs = 0;
  for (const std::string name :
       {"mixtral-8x7b-64-h100", "llama-3.1-70b-512-h100", "llama-3.1-405b-16384-h100",
        "gpt3-175b-1024-a100", "llama-3.1-70b-asynctp-256-h100", "vit-l16-64-a100"}) {
    const Scenario scenario = shipped(name);
    // The same file with other values of everything that a file may write differently.
    for (const std::vector<std::string>& other :
         {std::vector<std::string>{},
          {"layout.overlap=false"},
          {"layout.bucket=30 MiB", "layout.first_bucket=2 MiB"},
          {"layout.zero_stage=1"},
          {"layout.recompute=full", "layout.recompute_every=2"},
          {"layout.micro_batch=1"}}) {
      std::vector<std::string> set = other;
      try {
        static_cast<void>(shipped(name, set));
      } catch (const std::exception&) {
        continue;
      }
      const Layout found = shipped(name, set).layout;
      CAPTURE(name, set);
      CHECK(shipped(name, overrides_of(found, scenario.model)).layout == found);
      ++pairs;
    }
  }
  CHECK(pairs > 20);
}

TEST_CASE("keys that are set on top win over the other forms of a file", "[catalog]") {
  const auto layout = [](const std::string& lines, const std::vector<std::string>& set) {
    return load_scenario(
               ScenarioSources::of_text("model: " + root +
                                            "/models/mixtral-8x7b.yaml\ncluster: {path: " + root +
                                            "/topologies/dgx-h100.yaml, nodes: 8}\nlayout:\n"
                                            "  sequence_length: 1024\n  global_batch: 64\n"
                                            "  pipeline_parallel: 4\n" +
                                            lines,
                                        root + "/s.yaml", set))
        .layout;
  };
  const Layout off = layout("  overlap: false\n", {"layout.overlap.gradients=true"});
  CHECK(off.overlap_gradients);
  CHECK_FALSE(off.overlap_parameters);
  CHECK_FALSE(off.overlap_tensor_wgrad);
  CHECK_FALSE(layout("  overlap: {pipeline: true}\n", {"layout.overlap=false"}).overlap_pipeline);
  CHECK(layout("  layers_per_stage: [7, 8, 8, 9]\n", {"layout.layers_per_chunk=even"})
            .layers_per_chunk.empty());
  CHECK(layout("  layers_per_chunk: [7, 8, 8, 9]\n", {"layout.layers_per_stage=[9, 8, 8, 7]"})
            .layers_per_chunk == std::vector<int>{9, 8, 8, 7});
  CHECK(layout("  bucket: 30 MiB\n", {"layout.bucket=auto"}).bucket == std::nullopt);
  CHECK(layout("  expert_tensor_parallel: 2\n  tensor_parallel: 2\n  sequence_parallel: true\n",
               {"layout.expert_tensor_parallel=0"})
            .expert_tensor() == 2);
}
