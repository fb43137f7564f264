// Launch files that start what another reader than the one that was asked for reads, or what none
// reads.
#pragma once

#include <optional>
#include <string>

#include "sim/interop/job_file.hpp"
#include "sim/interop/launch_line.hpp"

namespace sim {

// foreign_start() is told at the line that starts the job; nothing: it may be a job of `asked`, or
// is not known.
std::optional<Problem> foreign_start(JobKind asked, const Launch& launch, const std::string& file);

// kind_of_launch() tells the kind of a script by words that only such jobs have: nemo (a recipe of
// Megatron-Bridge) or accelerate (a trainer of TRL, axolotl, LLaMA-Factory).
std::optional<JobKind> kind_of_launch(std::string_view text);

// Whether a text's flags are those of a script of its own under PyTorch FSDP, and none of
// Megatron-LM's.
bool is_own_fsdp_script(std::string_view text);

}  // namespace sim
