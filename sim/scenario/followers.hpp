// A knob that is set on top of a scenario file (--set, an axis of a sweep) makes what the file says
// of others follow, where it no longer goes with it. The order is that of the table in DEFAULTS.md.
#pragma once

#include <string>
#include <vector>

#include "sim/model/model.hpp"
#include "sim/scenario/layered.hpp"
#include "sim/scenario/read/read_layout.hpp"

namespace sim {

// Whether a knob that others follow is set on top: any key of the model, the cluster or the layout.
bool knob_is_set(const Layered& top);

// Changes what `text` has of the file's keys, never of those that are set on top, and tells it in
// text.followed. What no follower mends stays for layout_problems(). `gpus`: those of the job;
// `gpus_per_node`: those of the cluster.
void follow_knobs(LayoutText& text, const Model& model, int gpus, int gpus_per_node,
                  const Layered& layout);

// The GPUs of the job, where data_parallel alone of the degrees of parallelism and of what says how
// many GPUs there are is set on top: replicas are added with their GPUs. 0: they do not follow.
std::int64_t gpus_for_replicas(const LayoutText& text, const Layered& top);

// Layers over chunks, as evenly as possible: the last chunk and the first, which have the head and
// the embedding, are the first to hold one less. REQUIRES: chunks > 0.
std::vector<int> nearly_even(int layers, int chunks);

}  // namespace sim
