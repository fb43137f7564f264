#include <algorithm>
#include <iterator>

#include "sim/base/check.hpp"
#include "sim/framework/presets/message_overlap.hpp"
#include "sim/framework/presets/tables.hpp"
#include "sim/schedule/schedule_rules.hpp"

namespace sim {

namespace preset_tables {

LayoutDefault no_recomputation(std::string_view why) {
  return {"recompute", [](Layout& layout) { layout.recompute = Recompute::none; }, why};
}

LayoutDefault attention(AttentionKernel kernel, std::string_view why) {
  LayoutDefault row{"attention", nullptr, why};
  switch (kernel) {
    case AttentionKernel::unfused:
      row.set = [](Layout& layout) { layout.attention = AttentionKernel::unfused; };
      break;
    case AttentionKernel::flash_2:
      row.set = [](Layout& layout) { layout.attention = AttentionKernel::flash_2; };
      break;
    default:
      row.set = [](Layout& layout) { layout.attention = AttentionKernel::flash; };
  }
  return row;
}

LayoutDefault waits_for_messages(std::string_view why, bool fixed) {
  return {"overlap.pipeline",
          [](Layout& layout) {
            if (layout.pipeline_parallel > 1)
              layout.overlap_pipeline = splits_backward(layout.schedule);
          },
          why, fixed};
}

LayoutDefault overlaps_interleaved_messages(std::string_view why) {
  return {"overlap.pipeline",
          [](Layout& layout) {
            if (layout.pipeline_parallel > 1)
              layout.overlap_pipeline =
                  layout.schedule == Schedule::interleaved || splits_backward(layout.schedule);
          },
          why};
}

}  // namespace preset_tables

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all = [] {
    namespace tables = preset_tables;
    std::vector<Preset> joined;
    for (auto* table : {tables::megatron, tables::pytorch, tables::transformers, tables::scaling,
                        tables::torchtitan, tables::deepspeed, tables::nvidia_recipes,
                        tables::fully_sharded_data, tables::trainers})
      std::ranges::move(table(), std::back_inserter(joined));
    return joined;
  }();
  return all;
}

const Preset* find_preset(PresetName name, std::string_view version) {
  const auto found = std::ranges::find_if(presets(), [&](const Preset& preset) {
    return preset.name == name && preset.version == version;
  });
  return found == presets().end() ? nullptr : &*found;
}

const Preset& preset_of(PresetName name) {
  const Preset* found = find_preset(name, "");
  SIM_CHECK(found != nullptr, word(name));
  return *found;
}

std::vector<std::string_view> versions_of(PresetName name) {
  std::vector<std::string_view> versions;
  for (const Preset& preset : presets())
    if (preset.name == name && !preset.version.empty()) versions.push_back(preset.version);
  return versions;
}

std::string text_of(const Preset& preset) {
  std::string text{word(preset.name)};
  if (!preset.version.empty()) text += ' ' + std::string{preset.version};
  return text;
}

const LayoutDefault* set_message_overlap(const Preset& preset, Layout& layout) {
  layout.overlap_pipeline = Layout{}.overlap_pipeline;
  const LayoutDefault* by = nullptr;
  for (const LayoutDefault& row : preset.layout) {
    if (row.key != message_overlap_key) continue;
    row.set(layout);
    if (layout.overlap_pipeline != Layout{}.overlap_pipeline) by = &row;
  }
  return by;
}

Framework framework_of(FrameworkName name) {
  namespace tables = preset_tables;
  switch (name) {
    case FrameworkName::megatron:
      return tables::megatron_kernels();
    case FrameworkName::pytorch:
      return tables::pytorch_kernels();
    case FrameworkName::transformers:
      return tables::transformers_kernels();
    case FrameworkName::scaling:
      return tables::scaling_kernels();
    case FrameworkName::torchtitan:
      return tables::torchtitan_kernels();
    case FrameworkName::deepspeed:
      return tables::deepspeed_kernels();
    case FrameworkName::megatron_deepspeed:
      return tables::megatron_deepspeed_kernels();
  }
  return tables::megatron_kernels();
}

}  // namespace sim
