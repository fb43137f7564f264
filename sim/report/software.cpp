#include "sim/report/software.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "sim/scenario/framework_values.hpp"

namespace sim {
namespace {

// kernels_text() names the kernels of a model's layers: its norms tell (framework.hpp).
std::string kernels_text(const Framework& framework, const Model& model) {
  bool rms = true;
  if (model.shape) rms = model.shape->norm == NormKind::rms;
  const NormForm norm = rms ? framework.rms_norm : framework.layer_norm;
  return fmt::format("layers {}, loss {}, optimizer {}", word(norm), word(framework.loss),
                     word(framework.optimizer));
}

std::string attention_text(const Scenario& scenario) {
  const AttentionKernel kernel = scenario.layout.attention;
  const AttentionModel* rates = scenario.cluster.device().attention_model(kernel);
  const std::string name = rates != nullptr ? rates->kernels : std::string{};
  return name.empty() ? std::string{word(kernel)} : fmt::format("{} ({})", word(kernel), name);
}

std::string allocator_text(const Execution& runs) {
  if (!runs.caching_allocator) return "none replayed";
  if (runs.expandable_segments) return "PyTorch's, expandable segments";
  if (runs.max_split_size.count() > 0)
    return fmt::format("PyTorch's, max_split_size {}", to_text(runs.max_split_size));
  return "PyTorch's";
}

// The preset that a scenario was made from; of an import the one of its framework's name.
const Preset& base_of(const Scenario& scenario) {
  if (scenario.preset != nullptr) return *scenario.preset;
  return preset_of(*from_word<PresetName>(word(scenario.framework.name)));
}

std::string key_of(const std::string& value) {
  return value.substr(0, value.find(' '));
}

}  // namespace

Software software_of(const Scenario& scenario) {
  const Preset& preset = base_of(scenario);
  Software made{.framework = scenario.names_framework ? std::string{preset.title}
                                                      : "framework not named, as Megatron-LM",
                .version = std::string{preset.version},
                .preset = text_of(preset),
                .kernels = kernels_text(scenario.framework, scenario.model),
                .attention = attention_text(scenario),
                .allocator = allocator_text(scenario.framework.execution),
                .unlike_preset = other_values(scenario.framework, preset.framework),
                .newest = {},
                .newest_has = {}};
  const std::vector<std::string_view> versions = versions_of(preset.name);
  if (!preset.version.empty() || versions.empty()) return made;
  made.newest = std::string{versions.back()};
  made.newest_has =
      other_values(find_preset(preset.name, versions.back())->framework, preset.framework);
  // Values that the scenario sets itself are told already.
  std::erase_if(made.newest_has, [&](const std::string& value) {
    return std::ranges::any_of(
        made.unlike_preset, [&](const std::string& own) { return key_of(own) == key_of(value); });
  });
  return made;
}

std::string software_line(const Software& software) {
  return fmt::format("{} {} (preset {}): {}; attention {}; allocator {}", software.framework,
                     software.version.empty() ? "without a version" : software.version,
                     software.preset, software.kernels, software.attention, software.allocator);
}

std::vector<std::string> software_differences(const Software& software) {
  std::vector<std::string> lines;
  if (!software.unlike_preset.empty())
    lines.push_back(fmt::format("unlike preset {}: {}", software.preset,
                                fmt::join(software.unlike_preset, ", ")));
  if (!software.newest_has.empty())
    lines.push_back(fmt::format("framework.version {} would have: {}", software.newest,
                                fmt::join(software.newest_has, ", ")));
  return lines;
}

}  // namespace sim
