// The `layout` section of a scenario.
#pragma once

#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "sim/framework/presets/preset.hpp"
#include "sim/layout/layout.hpp"
#include "sim/model/model.hpp"
#include "sim/scenario/followed.hpp"
#include "sim/scenario/layered.hpp"

namespace sim {

// LayoutText is what the file says, before the model and the cluster fill in what it leaves out.
struct LayoutText {
  Layout layout;
  bool has_data_parallel = false;
  bool has_sequence_length = false;
  bool has_message_overlap = false;
  // How the layers are spread over the model chunks: one of these, or none for an even split.
  std::vector<int> chunks;         // layers_per_chunk: a list
  std::vector<int> stages;         // layers_per_stage: a list
  std::optional<int> first, last;  // layers_per_chunk: {first: .., last: ..}
  std::vector<Followed> followed;  // what no longer went with a knob that is set on top
};

// Whether layers_per_stage holds, not layers_per_chunk: one that is set on top replaces the file's
// other.
bool splits_by_stage(const Layered& section);

// Whether it says overlap.pipeline, alone or with all of overlap in one word.
bool says_message_overlap(const Layered& section);

// read_layout() fills in keys that the file leaves open: from `preset`, if it fills scenarios, else
// from layout_fields(), but for overlap.pipeline, which is always the preset's. What the preset
// sets and differs from layout_fields() is told in LayoutText::followed.
LayoutText read_layout(const Layered& section, const Execution& runs, const Preset& preset);

// A table of runs has a layout already. `said`: keys that its cells speak of. Of the others, those
// that follow from earlier ones (LayoutField::set_default) do so again.
struct LayoutBase {
  Layout layout;
  std::set<std::string_view> said;
};
// The same, where the section is on top of `base`; keys that neither says are the preset's.
LayoutText read_layout(const Layered& section, const Execution& runs, const Preset& preset,
                       const LayoutBase& base);

// fill_message_overlap() sets what a file leaves open of overlap.pipeline to the preset's for the
// schedule: it is called again when the schedule or the stages have changed. It tells so in
// LayoutText::followed.
void fill_message_overlap(const Preset& preset, LayoutText& text);

// Sets layout.layers_per_chunk from what the text says, for a model of `layers` layers. Records
// problems at the keys of `section`.
void spread_layers(const LayoutText& text, int layers, const Layered& section, Layout& layout);

// Layers of chunks as the preset splits them, where it does and nothing else says.
void split_as_preset(const Preset& preset, const Model& model, const Layered& section,
                     LayoutText& text);

}  // namespace sim
