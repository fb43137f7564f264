// Keys of a scenario as columns of a table, and as the base of a set.
#include "sim/rows/row_keys.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "sim/base/input_error.hpp"
#include "sim/scenario/sources.hpp"
#include "sim/scenario/write_scenario.hpp"
#include "sim/scores/published.hpp"
#include "tests/catch.hpp"
#include "tests/temporary.hpp"
#include "tests/unit/rows/run_cells.hpp"

namespace {

using namespace sim;
using test::cells_with, test::reason;
using Cells = std::vector<std::pair<std::string, std::string>>;

// The sound row with more columns in front.
std::vector<MeasuredRow> rows_of(const std::string& columns, const std::string& cells,
                                 const RowContext& context = {}) {
  return read_runs(CsvTable::parse(columns + test::header + cells + test::sound, "t.csv"),
                   BadRows::refuse, context);
}

std::string problem_of(const std::string& columns, const std::string& cells) {
  try {
    rows_of(columns, cells);
  } catch (const InputError& error) {
    return error.problems().front().what;
  }
  return "";
}

TEST_CASE("columns may be keys of a scenario, which go on top of the cells", "[scores]") {
  const RunCells cells =
      *rows_of(
           "framework,framework_version,framework.loss,layout.overlap.gradients,layout.attention,",
           "nemo,1,fused,false,unfused,")[0]
           .cells;
  CHECK(run_preset(cells).version == "1");
  CHECK(run_framework(cells).loss == LossForm::fused);
  CHECK_FALSE(run_layout(cells).overlap_gradients);
  CHECK(run_layout(cells).attention == AttentionKernel::unfused);
  const RunCells open = *rows_of("framework,framework.loss,", "nemo,,")[0].cells;
  CHECK(run_framework(open) == preset_of(PresetName::nemo).framework);
}

TEST_CASE("unknown keys are refused with the nearest", "[scores]") {
  CHECK(problem_of("framework.los,", "fused,") ==
        "a scenario has no key 'framework.los'; did you mean 'framework.loss'?");
  CHECK(problem_of("layout.loss,", "x,").starts_with("a scenario has no key 'layout.loss'; "));
  CHECK(problem_of("model.transformer.layers,", "4,") ==
        "a table cannot give the key 'model.transformer.layers'");
  CHECK(reason({{"framework", "nemos"}}).starts_with("name is 'nemos'; did you mean 'nemo'?"));
  CHECK(reason({{"framework", "nemo"}, {"framework_version", "3"}}) ==
        "there is no version '3' of nemo; did you mean '1'?");
  CHECK(reason({{"framework.loss", "melted"}}).starts_with("loss is 'melted'; allowed: fused, "));
}

TEST_CASE("a value that is none is told for its row alone", "[scores]") {
  const std::vector<MeasuredRow> rows = rows_of("framework.loss,", "[fused,");
  REQUIRE(rows.size() == 1);
  CHECK_THROWS_AS(run_framework(*rows[0].cells), NotSimulated);
  CHECK_FALSE(reason({{"layout.recompute", "'"}}).empty());
  CHECK(reason({{"framework", "nemo # x"}}).find("no line breaks and no '#'") != std::string::npos);
}

TEST_CASE("a key with a column of its own replaces that cell", "[scores]") {
  const Layout layout =
      run_layout(cells_with({{"layout.tensor_parallel", "4"}, {"dp", ""}, {"mbs", "1"}}));
  CHECK(layout.tensor_parallel == 4);
  CHECK(layout.data_parallel == 2);
}

TEST_CASE("keys of other sections change the row as --set does", "[scores]") {
  const auto run = [](const Cells& changes) {
    return run_scenario(cells_with(changes), sim::test::source_dir());
  };
  const Scenario jittery = run({{"simulation.jitter", "0.25"}});
  CHECK(jittery.options.jitter == 0.25);
  CHECK(jittery.layout == run({}).layout);
  CHECK(reason({{"simulation.jitter", "9"}}).starts_with("jitter"));
}

TEST_CASE("a base holds for rows that say nothing else", "[scores]") {
  const RowContext context{.base = {{"framework.name", "nemo"},
                                    {"framework.loss", "fused"},
                                    {"layout.zero_stage", "1"}}};
  const RunCells silent = *rows_of("framework.loss,", ",", context)[0].cells;
  CHECK(run_framework(silent).loss == LossForm::fused);
  CHECK(run_layout(silent).zero_stage == 1);
  const RunCells own = *rows_of("framework.loss,zero_stage,", "separate,2,", context)[0].cells;
  CHECK(run_framework(own).loss == LossForm::separate);
  CHECK(run_layout(own).zero_stage == 2);
}

// Settings that a row and a scenario of a preset have in common, where neither says more.
TEST_CASE("a scenario of a preset gets what a row of it gets", "[scores]") {
  for (const Preset& preset : presets()) {
    if (!preset.fills_scenarios()) continue;
    CAPTURE(text_of(preset));
    const Cells columns{{"framework", std::string{word(preset.name)}},
                        {"framework_version", std::string{preset.version}},
                        {"vpp", "2"},
                        {"recompute", ""},
                        {"attn_kernel", ""}};
    RunCells cells = cells_with(columns);
    if (preset.version.empty()) cells.keys.erase("framework.version");
    fill_empty_cells(cells);
    const Scenario row = run_scenario(cells, sim::test::source_dir());
    const std::string yaml = fmt::format(
        "model: {0}/models/gpt2.yaml\ncluster: {{path: {0}/topologies/dgx-a100-80.yaml, nodes: "
        "2}}\n"
        "layout: {{tensor_parallel: 2, pipeline_parallel: 2, virtual_stages: 2, sequence_length: "
        "1024, global_batch: 16}}\nframework: {{name: {1}{2}}}\n",
        sim::test::source_dir(), word(preset.name),
        preset.version.empty() ? "" : fmt::format(", version: \"{}\"", preset.version));
    const Scenario file =
        load_scenario(ScenarioSources::of_text(yaml, sim::test::source_dir() + "/s.yaml"));
    CHECK(row.framework == file.framework);
    CHECK(row.preset == file.preset);
    Layout same = file.layout;
    if (!row.cluster.device().flash_attention_2 && same.attention == AttentionKernel::flash_2)
      same.attention = AttentionKernel::flash;
    CHECK(row.layout == same);
  }
}

}  // namespace
