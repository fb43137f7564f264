// Keys by their old names: read as before, with a note.
#include "sim/scenario/renamed_keys.hpp"

#include <algorithm>

#include "sim/base/input_error.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/scenario/sources.hpp"
#include "sim/scenario/write_scenario.hpp"
#include "tests/catch.hpp"
#include "tests/problems.hpp"
#include "tests/support/source_dir.hpp"

using namespace sim;

namespace {

const std::string root = test::source_dir();

Scenario load(const std::string& rest, const std::vector<std::string>& set = {}) {
  return load_scenario(ScenarioSources::of_text(
      "model: " + root + "/models/gpt2.yaml\ncluster: {path: " + root +
          "/topologies/dgx-h100.yaml, nodes: 1}\nlayout: {sequence_length: 1024, global_batch: "
          "64, compute_dtype: fp8}\n" +
          rest,
      root + "/s.yaml", set));
}

std::vector<std::string> notes_of(const Scenario& scenario) {
  std::vector<std::string> lines;
  for (const Followed& followed : scenario.followed)
    lines.push_back(text_of(followed));
  return lines;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("a key by its old name means the same, and a note says the new one", "[scenario]") {
  const Scenario old = load("framework: {holds_units: true, adds_gradients: true}\n");
  CHECK(old.framework.execution.holds_units);
  CHECK(old.framework.execution.adds_gradients);
  CHECK(
      notes_of(old) ==
      Lines{"framework.adds_gradients is now called framework.gradient_accumulation_fusion, which "
            "means the opposite; the next release no longer knows the old name",
            "framework.holds_units is now called framework.defer_gradient_sync; the next release "
            "no longer knows the old name"});
  const Scenario now =
      load("framework: {defer_gradient_sync: true, gradient_accumulation_fusion: false}\n");
  CHECK(now.framework == old.framework);
  CHECK(notes_of(now).empty());
}

TEST_CASE("every renamed key is read by both names", "[scenario]") {
  for (const RenamedKey& key : renamed_keys()) {
    CAPTURE(key.old);
    const std::string section{key.section};
    const auto set = [&](std::string_view name, const std::string& value) {
      return section + "." + std::string{name} + "=" + value;
    };
    const bool word = key.old == "eight_bit";
    for (const std::string value :
         {word ? "torchao" : "true", word ? "transformer_engine" : "false"}) {
      const std::string same = !key.inverted ? value : value == "true" ? "false" : "true";
      const Scenario old = load("framework: {}\n", {set(key.old, value)});
      const Scenario now = load("framework: {}\n", {set(key.now, same)});
      CHECK(old.framework == now.framework);
      CHECK(old.layout == now.layout);
      CHECK(notes_of(old).size() == 1);
      CHECK(notes_of(now).empty());
      // --set by either name goes over a file by either.
      if (section != "framework") continue;
      const std::string file = "framework: {" + std::string{key.now} + ": " + same + "}\n";
      CHECK(load(file, {set(key.old, value)}).framework == old.framework);
      const std::string other = "framework: {" + std::string{key.old} + ": " +
                                (word ? "torchao_rowwise" : "true") + "}\n";
      CHECK(load(other, {set(key.now, same)}).framework == now.framework);
    }
  }
}

TEST_CASE("files are written with the new names", "[scenario]") {
  const Scenario scenario = load("framework: {holds_units: true, adds_gradients: true}\n");
  const std::string yaml = scenario_yaml(scenario, root, "");
  CHECK(yaml.find("  defer_gradient_sync: true\n") != std::string::npos);
  CHECK(yaml.find("  gradient_accumulation_fusion: false\n") != std::string::npos);
  for (const RenamedKey& key : renamed_keys())
    CHECK(yaml.find("  " + std::string{key.old} + ":") == std::string::npos);
  const Scenario again = load_scenario(ScenarioSources::of_text(yaml, root + "/s.yaml"));
  CHECK(again.framework == scenario.framework);
  CHECK(again.layout == scenario.layout);
}

TEST_CASE("both names in one file are refused, and the old ones are not suggested", "[scenario]") {
  const auto problems = [](const std::string& rest) {
    try {
      load(rest);
    } catch (const InputError& error) {
      return test::lines_of(error);
    }
    return Lines{};
  };
  CHECK(problems("framework: {holds_units: true, defer_gradient_sync: true}\n") ==
        Lines{"4:26: is the old name of defer_gradient_sync, which is there, too"});
  CHECK(problems("framework: {hold_units: true}\n").at(0).find("holds_units") == std::string::npos);
  CHECK(problems("framework: {holds_units: 7}\n") ==
        Lines{"4:26: holds_units is '7'; expected true or false"});
}
