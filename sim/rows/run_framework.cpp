// The framework of a row: a preset, what single columns say of its kernels, and keys.
#include <fmt/format.h>

#include "sim/rows/row_keys.hpp"
#include "sim/rows/run_scenario.hpp"
#include "sim/rows/run_words.hpp"
#include "sim/scenario/read/read_framework.hpp"
#include "sim/scenario/sources.hpp"

namespace sim {
namespace {

// torchao's recipes by name. "TE": Transformer Engine's linears, behind PyTorch's norms
// (llm-foundry: precision amp_fp8, fc_type te).
EightBit recipe_of(const RunCells& cells) {
  const std::string precision = lower_case(cells["precision"]);
  if (contains(precision, "gw_hp")) return EightBit::torchao_rowwise_with_gw_hp;
  if (contains(precision, "rowwise") || contains(precision, "row-wise"))
    return EightBit::torchao_rowwise;
  return contains(precision, "(te ") ? EightBit::transformer_engine_linear : EightBit::torchao;
}

void set_host_issue(const RunCells& cells, Framework& framework) {
  const std::optional<double> issue = cells.real("host_issue_us");
  if (!issue) return;
  framework.host_issue = duration_from_seconds(*issue * 1e-6);
  if (*framework.host_issue > most_host_issue)
    throw NotSimulated(fmt::format("host_issue_us is {:g}; allowed: 0 to 1000", *issue));
}

}  // namespace

const Preset& run_preset(const RunCells& cells) {
  std::vector<std::string> names;
  for (const char* key : {"framework.name", "framework.version"})
    if (const auto found = cells.keys.find(key); found != cells.keys.end())
      names.push_back(fmt::format("{}={}", key, found->second));
  const ScenarioSources keys = sources_of(names);
  const Preset& preset = read_preset(keys.top().section("framework"));
  finish_row(keys);
  return preset;
}

Framework run_framework(const RunCells& cells) {
  Framework framework = run_preset(cells).framework;
  if (is_torch_fsdp(cells["shard_strategy"])) framework.execution.eight_bit = recipe_of(cells);
  set_host_issue(cells, framework);
  const ScenarioSources keys = sources_of(assignments_of(cells, "framework"));
  framework = read_framework(keys.top().section("framework"), framework);
  finish_row(keys);
  return framework;
}

}  // namespace sim
