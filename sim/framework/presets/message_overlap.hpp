// overlap.pipeline as a framework has it: the one row of a preset that every scenario takes, with a
// version and without, because it depends on the schedule.
#pragma once

#include "sim/framework/presets/preset.hpp"

namespace sim {

inline constexpr std::string_view message_overlap_key = "overlap.pipeline";

// Sets overlap.pipeline to what the framework does under the schedule and the stages of `layout`.
// Returns the row that made it differ from the default of layout_fields, or nullptr.
const LayoutDefault* set_message_overlap(const Preset& preset, Layout& layout);

}  // namespace sim
