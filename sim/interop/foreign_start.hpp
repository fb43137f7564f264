// What a launch file starts where another reader than the one that was asked for has it, or none.
#pragma once

#include <optional>
#include <string>

#include "sim/interop/job_file.hpp"
#include "sim/interop/launch_line.hpp"

namespace sim {

// What to say, at the line that starts it; nothing: it may be a job of `asked`, or is not known.
std::optional<Problem> foreign_start(JobKind asked, const Launch& launch, const std::string& file);

// Of a script, by words that only such jobs have: nemo (a recipe of Megatron-Bridge) or accelerate
// (a trainer of TRL, axolotl, LLaMA-Factory).
std::optional<JobKind> kind_of_launch(std::string_view text);

// Whether a text's flags are those of a script of its own under PyTorch FSDP, and none of
// Megatron-LM's.
bool is_own_fsdp_script(std::string_view text);

}  // namespace sim
