// The tables that the presets are made of, one per framework. presets.cpp joins them.
#pragma once

#include <vector>

#include "sim/framework/presets/preset.hpp"

namespace sim::preset_tables {

// The kernels of a name without a version.
Framework megatron_kernels();
Framework pytorch_kernels();
Framework transformers_kernels();
Framework scaling_kernels();
Framework torchtitan_kernels();
Framework deepspeed_kernels();
Framework megatron_deepspeed_kernels();

std::vector<Preset> megatron();
std::vector<Preset> pytorch();
std::vector<Preset> transformers();
std::vector<Preset> scaling();
std::vector<Preset> torchtitan();
std::vector<Preset> deepspeed();           // deepspeed, megatron_deepspeed
std::vector<Preset> nvidia_recipes();      // megatron_bridge, nemo
std::vector<Preset> fully_sharded_data();  // fsdp1, fsdp2
std::vector<Preset> trainers();            // those that were read and have few measured runs

// Rows that several tables have.
LayoutDefault no_recomputation(std::string_view why);
LayoutDefault attention(AttentionKernel kernel, std::string_view why);
// overlap.pipeline of a framework that waits for the messages of a pipeline, unless the schedule
// splits its backward passes: only code that posts messages ahead has such schedules.
LayoutDefault waits_for_messages(std::string_view why, bool fixed = false);
// The same, but messages of the interleaved schedule overlap.
LayoutDefault overlaps_interleaved_messages(std::string_view why);
// torch.distributed.pipelining: overlap.pipeline of frameworks that take its pipelines.
LayoutDefault messages_of_torch();

}  // namespace sim::preset_tables
