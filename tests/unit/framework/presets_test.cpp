// The tables of framework presets: complete, unambiguous, and of keys that exist.
#include <set>

#include "sim/framework/presets/message_overlap.hpp"
#include "sim/framework/presets/preset.hpp"
#include "sim/layout/layout_fields.hpp"
#include "tests/catch.hpp"

using namespace sim;

namespace {

// `layout` with what a preset's row of that key makes of it.
Layout with(const Preset& preset, std::string_view key, Layout layout) {
  for (const LayoutDefault& row : preset.layout)
    if (row.key == key) row.set(layout);
  return layout;
}

TEST_CASE("every name has a preset without a version, and no version twice", "[framework]") {
  std::set<std::string> seen;
  for (const Preset& preset : presets()) {
    CAPTURE(text_of(preset));
    CHECK(seen.insert(text_of(preset)).second);
    CHECK(find_preset(preset.name, preset.version) == &preset);
    CHECK_FALSE(preset.title.empty());
  }
  for (const auto& name : words_of(PresetName{}))
    CHECK(preset_of(name.value).version.empty());
  CHECK(find_preset(PresetName::megatron, "2022") == nullptr);
}

TEST_CASE("a preset sets keys of the section layout, each for a reason", "[framework]") {
  std::set<std::string_view> known;
  for (const LayoutField& field : layout_fields())
    known.insert(field.key.path);
  for (const Preset& preset : presets())
    for (const LayoutDefault& row : preset.layout) {
      CAPTURE(text_of(preset), row.key);
      CHECK(known.contains(row.key));
      CHECK_FALSE(row.why.empty());
    }
}

TEST_CASE("a name without a version has the kernels that it always had", "[framework]") {
  for (const auto& name : words_of(FrameworkName{})) {
    const auto same = from_word<PresetName>(name.text);
    REQUIRE(same);
    CHECK(preset_of(*same).framework == framework_of(name.value));
    CHECK(framework_of(name.value).name == name.value);
    CHECK_FALSE(preset_of(*same).fills_scenarios());
  }
}

TEST_CASE("generations of Megatron-LM differ in gradients, loss and optimizer", "[framework]") {
  const auto runs = [](const char* version) {
    return find_preset(PresetName::megatron, version)->framework;
  };
  CHECK(runs("").loss == LossForm::fused);
  CHECK(runs("2021").execution.adds_gradients);
  CHECK(runs("2021").execution.gradient_placeholders == Placeholders::none);
  CHECK_FALSE(runs("2023").execution.adds_gradients);
  CHECK(runs("2023").execution.gradient_placeholders == Placeholders::temporary);
  // No flag of Megatron-LM changes it; 2021 leaves the passes of its optimizer out.
  for (const char* version : {"", "2023", "core-0.16"})
    CHECK(runs(version).execution.separate_update);
  CHECK_FALSE(runs("2021").execution.separate_update);
  CHECK(runs("core-0.16").execution.gradient_placeholders == Placeholders::kept);
  CHECK(runs("core-0.16").loss == LossForm::separate);
}

TEST_CASE("messages of a recipe overlap in interleaved schedules alone", "[framework]") {
  const Preset& nemo = preset_of(PresetName::nemo);
  Layout plain;
  plain.pipeline_parallel = 2;
  CHECK_FALSE(with(nemo, "overlap.pipeline", plain).overlap_pipeline);
  Layout interleaved = plain;
  interleaved.schedule = Schedule::interleaved;
  CHECK(with(nemo, "overlap.pipeline", interleaved).overlap_pipeline);
}

TEST_CASE("every framework says whether messages overlap under each schedule", "[framework]") {
  const auto overlaps = [](const Preset& preset, Schedule schedule, int stages = 4) {
    Layout layout;
    layout.pipeline_parallel = stages;
    layout.schedule = schedule;
    layout.overlap_pipeline = stages == 1;  // what it was before does not count
    const LayoutDefault* row = set_message_overlap(preset, layout);
    CHECK((row != nullptr) == !layout.overlap_pipeline);
    return layout.overlap_pipeline;
  };
  for (const Preset& preset : presets()) {
    CAPTURE(text_of(preset));
    const bool megatron = preset.framework.name == FrameworkName::megatron;
    CHECK_FALSE(overlaps(preset, Schedule::one_f_one_b));
    CHECK_FALSE(overlaps(preset, Schedule::gpipe));
    // InternEvo: pipeline.interleaved_overlap is on by default.
    const bool overlapping =
        (megatron && preset.version != "2021") || preset.name == PresetName::internevo;
    CHECK(overlaps(preset, Schedule::interleaved) == overlapping);
    CHECK(overlaps(preset, Schedule::zb_h1));
    CHECK(overlaps(preset, Schedule::zb_v));
    CHECK(overlaps(preset, Schedule::dual_pipe_v));
    CHECK(overlaps(preset, Schedule::one_f_one_b, 1));
  }
}

TEST_CASE("DeepSpeed reduces gradients beside compute under ZeRO-3 only", "[framework]") {
  const Preset& deepspeed = preset_of(PresetName::deepspeed);
  const auto overlaps = [&](int stage, int stages) {
    Layout layout;
    layout.zero_stage = stage;
    layout.pipeline_parallel = stages;
    return with(deepspeed, "overlap.gradients", layout).overlap_gradients;
  };
  CHECK(overlaps(3, 1));
  CHECK_FALSE(overlaps(3, 2));
  CHECK_FALSE(overlaps(2, 1));
}

}  // namespace
