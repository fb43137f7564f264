// The part of the layout space that a framework can run: a search proposes nothing else under it.
// The rules are those that its export refuses by (sim/interop), which names their sources.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "sim/framework/presets/preset.hpp"
#include "sim/layout/layout.hpp"

namespace sim {

// FrameworkSpace lists what single keys may be.
struct FrameworkSpace {
  std::vector<int> zero_stages;
  std::vector<Schedule> schedules;
  std::vector<Recompute> recomputes;
  bool recomputes_each_nth = false;  // recompute_every above 1
  bool shares_sequences = true;      // context_parallel above 1
  bool swaps_stages = false;         // ranks in the order tp, cp, pp, dp, too
};

// space_of is that of a framework's name; null: nothing is known against any layout.
const FrameworkSpace* space_of(PresetName framework);

// Whether a job of the framework says how many layers each model chunk has: Megatron-LM's
// --pipeline-model-parallel-layout (and -first, -last), torchtitan's module_fqns_per_model_part.
// A framework of which nothing is known does.
bool splits_unevenly(PresetName framework);

// runs_pipeline tells whether `framework` runs the degrees, the schedule and the recomputation of
// `layout`; runs_sharding, its sharding and the order of its ranks besides; runs_offload, what it
// keeps on the host.
bool runs_pipeline(PresetName framework, const Layout& layout);
bool runs_sharding(PresetName framework, const Layout& layout);
bool runs_offload(PresetName framework, const Layout& layout);

}  // namespace sim
