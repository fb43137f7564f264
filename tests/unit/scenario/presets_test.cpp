// `framework: {name, version}` of a scenario: kernels and layout of the preset, which is told.
#include <fmt/format.h>

#include <algorithm>

#include "sim/base/input_error.hpp"
#include "sim/framework/presets/preset.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/scenario/sources.hpp"
#include "sim/scenario/write_scenario.hpp"
#include "tests/catch.hpp"
#include "tests/problems.hpp"
#include "tests/support/source_dir.hpp"

using namespace sim;

namespace {

const std::string root = test::source_dir();

Scenario load(const std::string& framework, const std::string& layout = "",
              const std::vector<std::string>& set = {}) {
  const std::string text =
      "model: " + root + "/models/llama-3.1-8b.yaml\ncluster: {path: " + root +
      "/topologies/dgx-h100.yaml, nodes: 2}\nlayout:\n  sequence_length: 4096\n  global_batch: "
      "64\n  tensor_parallel: 2\n  pipeline_parallel: 2\n" +
      layout + "framework: " + framework + "\n";
  return load_scenario(ScenarioSources::of_text(text, root + "/s.yaml", set));
}

std::vector<std::string> problems(const std::string& framework,
                                  const std::vector<std::string>& set = {}) {
  try {
    load(framework, "", set);
  } catch (const InputError& error) {
    return test::lines_of(error);
  }
  return {};
}

std::string in_file(const Preset& preset) {
  return fmt::format(
      "{{name: {}{}}}", word(preset.name),
      preset.version.empty() ? "" : fmt::format(", version: \"{}\"", preset.version));
}

bool tells(const Scenario& scenario, const std::string& key) {
  return std::ranges::any_of(scenario.followed,
                             [&](const Followed& note) { return note.key == key; });
}

TEST_CASE("every preset loads by name and version, with its kernels", "[scenario]") {
  for (const Preset& preset : presets()) {
    CAPTURE(text_of(preset));
    const Scenario scenario = load(in_file(preset));
    CHECK(scenario.framework == preset.framework);
    CHECK(scenario.preset == &preset);
    CHECK(tells(scenario, "layout.overlap.pipeline"));
    CHECK((scenario.followed.size() == 1) == !preset.fills_scenarios());
  }
}

TEST_CASE("a scenario of a preset is written and read as the same", "[scenario]") {
  for (const Preset& preset : presets()) {
    CAPTURE(text_of(preset));
    const Scenario scenario = load(in_file(preset));
    const Scenario again =
        load_scenario(ScenarioSources::of_text(scenario_yaml(scenario, root), root + "/s.yaml"));
    CHECK(again.framework == scenario.framework);
    CHECK(again.layout == scenario.layout);
    CHECK(again.preset == &preset);
    CHECK(again.followed.empty());
  }
}

TEST_CASE("what a version sets of the layout is told, and a file's key wins", "[scenario]") {
  const Scenario core = load("{name: megatron, version: core-0.16}");
  CHECK_FALSE(core.layout.overlap_gradients);
  CHECK(core.layout.gradient_dtype == DType::fp32);
  CHECK(core.layout.reduce_dtype == DType::fp32);
  REQUIRE(tells(core, "layout.overlap.gradients"));
  CHECK(text_of(core.followed.front()) ==
        "layout.gradient_dtype is fp32 instead of bf16, the default of megatron core-0.16 (--bf16 "
        "adds and reduces gradients in fp32)");
  const Scenario own = load("{name: megatron, version: core-0.16}",
                            "  gradient_dtype: bf16\n  overlap: {gradients: true}\n");
  CHECK(own.layout.overlap_gradients);
  CHECK(own.layout.gradient_dtype == DType::bf16);
  CHECK_FALSE(tells(own, "layout.overlap.gradients"));
  CHECK(tells(own, "layout.overlap.parameters"));
  const Scenario none = load("{name: megatron, version: core-0.16}", "  overlap: true\n");
  CHECK(none.layout.overlap_parameters);
  CHECK_FALSE(tells(none, "layout.overlap.parameters"));
}

TEST_CASE("a name without a version leaves the layout as it was", "[scenario]") {
  CHECK(load("{name: scaling}").layout == load("{name: deepspeed}").layout);
  CHECK(load("{name: megatron}").layout == load("{name: pytorch}").layout);
  CHECK_FALSE(load("{name: scaling, version: \"78489292\"}").layout.overlap_gradients);
}

TEST_CASE("messages of a plain 1F1B are waited for, as every framework does", "[scenario]") {
  const Scenario plain = load("{name: megatron}");
  CHECK(plain.layout.schedule == Schedule::one_f_one_b);
  CHECK_FALSE(plain.layout.overlap_pipeline);
  REQUIRE(plain.followed.size() == 1);
  CHECK(text_of(plain.followed.front()) ==
        "layout.overlap.pipeline is false instead of true, the default of megatron "
        "(overlap_p2p_comm is on, and for interleaved schedules only)");
  const Scenario interleaved = load("{name: megatron}", "  virtual_stages: 2\n");
  CHECK(interleaved.layout.overlap_pipeline);
  CHECK(interleaved.followed.empty());
  CHECK_FALSE(load("{name: torchtitan}", "  virtual_stages: 2\n").layout.overlap_pipeline);
  CHECK(load("{name: torchtitan}", "  schedule: zb-v\n  virtual_stages: 2\n")
            .layout.overlap_pipeline);
  for (const char* own : {"  overlap: {pipeline: true}\n", "  overlap: true\n"}) {
    const Scenario asked = load("{name: megatron}", own);
    CHECK(asked.layout.overlap_pipeline);
    CHECK(asked.followed.empty());
  }
}

TEST_CASE("overlap of messages follows the schedule that is set on top", "[scenario]") {
  const Scenario plain =
      load("{name: megatron}", "  virtual_stages: 2\n", {"layout.virtual_stages=1"});
  CHECK(plain.layout.schedule == Schedule::one_f_one_b);
  CHECK_FALSE(plain.layout.overlap_pipeline);
  CHECK(tells(plain, "layout.overlap.pipeline"));
  const Scenario interleaved =
      load("{name: megatron}", "  schedule: 1f1b\n", {"layout.virtual_stages=2"});
  CHECK(interleaved.layout.schedule == Schedule::interleaved);
  CHECK(interleaved.layout.overlap_pipeline);
  CHECK_FALSE(tells(interleaved, "layout.overlap.pipeline"));
  // 3 micro-batches do not go with the interleaved schedule.
  const Scenario odd = load("{name: megatron}", "  virtual_stages: 2\n",
                            {"layout.global_batch=12", "layout.micro_batch=1"});
  CHECK(odd.layout.schedule == Schedule::one_f_one_b);
  CHECK_FALSE(odd.layout.overlap_pipeline);
  const Scenario own =
      load("{name: megatron}", "  virtual_stages: 2\n  overlap: {pipeline: true}\n",
           {"layout.virtual_stages=1"});
  CHECK(own.layout.overlap_pipeline);
}

TEST_CASE("recipes cut products where sequence parallelism is on", "[scenario]") {
  const Layout nemo = load("{name: nemo}").layout;
  CHECK(nemo.sequence_parallel);
  CHECK(nemo.overlap_tensor_products);
  CHECK(nemo.zero_stage == 1);
  CHECK_FALSE(nemo.overlap_pipeline);
  const Layout off = load("{name: nemo}", "  sequence_parallel: false\n").layout;
  CHECK_FALSE(off.overlap_tensor_products);
  CHECK(load("{name: nemo}", "  virtual_stages: 2\n").layout.overlap_pipeline);
}

TEST_CASE("Scaling splits a pipeline by parameters unless the file lists layers", "[scenario]") {
  const std::string version = "{name: scaling, version: \"78489292\"}";
  const auto split = [&](const std::string& layout) {
    return load(version, layout).layout.layers_per_chunk;
  };
  CHECK(split("") == std::vector<int>{16, 16});
  CHECK(split("  layers_per_chunk: [15, 17]\n") == std::vector<int>{15, 17});
  CHECK(split("  layers_per_chunk: even\n").empty());
}

TEST_CASE("a scenario that does not name its framework stays so when it is written", "[scenario]") {
  const Scenario scenario = load("{loss: eager}");
  CHECK_FALSE(scenario.names_framework);
  CHECK(load("{name: megatron}").names_framework);
  CHECK(load("{loss: eager}", "", {"framework.name=megatron"}).names_framework);
  const Scenario again =
      load_scenario(ScenarioSources::of_text(scenario_yaml(scenario, root), root + "/s.yaml"));
  CHECK_FALSE(again.names_framework);
  CHECK(again.framework == scenario.framework);
}

TEST_CASE("an unknown version is refused with those that there are", "[scenario]") {
  CHECK(problems("{name: megatron, version: core-0.61}") ==
        std::vector<std::string>{"8:38: there is no version 'core-0.61' of megatron; did you mean "
                                 "'core-0.16'?"});
  CHECK(problems("{name: fsdp2, version: \"2\"}") ==
        std::vector<std::string>{"8:35: fsdp2 has no versions: leave the key out"});
  CHECK(problems("{name: megatron_brigde}")
            .front()
            .starts_with("8:19: name is 'megatron_brigde'; did you mean 'megatron_bridge'? "
                         "allowed: megatron, "));
}

TEST_CASE("another name on top leaves the file's version behind", "[scenario]") {
  const std::string file = "{name: megatron, version: \"2023\"}";
  CHECK(load(file, "", {"framework.name=torchtitan"}).preset == &preset_of(PresetName::torchtitan));
  CHECK(load(file, "", {"framework.version=2021"}).preset->version == "2021");
}

}  // namespace
