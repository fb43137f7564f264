// Framework presets: what a framework of a version does, as kernel forms and as the layout that it
// takes where a job says nothing. Scenarios and tables of runs look them up by name and version;
// each file of this folder holds those of one framework, with their sources.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/words.hpp"
#include "sim/framework/framework.hpp"
#include "sim/layout/layout.hpp"

namespace sim {

enum class PresetName : std::uint8_t {
  megatron,
  pytorch,
  transformers,
  scaling,
  torchtitan,
  deepspeed,
  megatron_deepspeed,
  megatron_bridge,
  nemo,
  fsdp1,
  fsdp2,
  internevo,
  nanotron,
  olmo_core,
  torchtune
};
constexpr auto words_of(PresetName) {
  return std::array{
      Word{PresetName::megatron, "megatron"},
      Word{PresetName::pytorch, "pytorch"},
      Word{PresetName::transformers, "transformers"},
      Word{PresetName::scaling, "scaling"},
      Word{PresetName::torchtitan, "torchtitan"},
      Word{PresetName::deepspeed, "deepspeed"},
      Word{PresetName::megatron_deepspeed, "megatron_deepspeed"},
      Word{PresetName::megatron_bridge, "megatron_bridge"},
      Word{PresetName::nemo, "nemo"},
      Word{PresetName::fsdp1, "fsdp1"},
      Word{PresetName::fsdp2, "fsdp2"},
      Word{PresetName::internevo, "internevo"},
      Word{PresetName::nanotron, "nanotron"},
      Word{PresetName::olmo_core, "olmo_core"},
      Word{PresetName::torchtune, "torchtune"},
  };
}

// A key of the section `layout` that the framework sets where a job does not.
struct LayoutDefault {
  std::string_view key;         // "overlap.pipeline"
  void (*set)(Layout& layout);  // from the keys that stand before it in a file (layout_fields)
  std::string_view why;         // the flag or the rule, for the report
  // No option of the framework changes it: the cells of a table do not, either.
  bool fixed = false;
};

struct Preset {
  PresetName name;
  std::string_view version;  // empty: a job that says no version
  std::string_view title;    // "Megatron-LM"
  Framework framework;
  std::vector<LayoutDefault> layout;
  // Layers of the model chunks where a job does not list them. Null: an even split.
  std::vector<int> (*split)(const Model& model, const Layout& layout) = nullptr;
  // Whether measured runs of it stand behind the intervals; else it was only read.
  bool measured = true;
  // Whether scenarios take `layout`. Not under the six names without a version: their scenarios
  // have the defaults of layout_fields.
  bool fills_scenarios() const { return !version.empty() || name >= PresetName::megatron_bridge; }
};

// All of them; the versions of a name stand together, the one without a version first.
const std::vector<Preset>& presets();
// nullptr: the name has no such version.
const Preset* find_preset(PresetName name, std::string_view version);
// Without a version.
const Preset& preset_of(PresetName name);
// "2021", "2023"; empty where there is only one.
std::vector<std::string_view> versions_of(PresetName name);
// "megatron_bridge 25.11"
std::string text_of(const Preset& preset);

}  // namespace sim
