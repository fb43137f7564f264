// The formats, one file each, and what their writers share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/interop/megatron/megatron_config.hpp"

namespace sim {

Exported export_megatron(const Scenario& scenario);
Exported export_torchtitan(const Scenario& scenario);
Exported export_nemo(const Scenario& scenario);
Exported export_deepspeed(const Scenario& scenario);

// Throws InputError at the scenario's file with a problem for each sentence, if there is any.
void throw_refusals(const Scenario& scenario, Target target, const Refusals& refusals);

// Comment lines, each behind `mark`: whose job this is, on how many GPUs, `usage`, the notes.
std::string header_text(const Scenario& scenario, const std::vector<Note>& notes,
                        std::string_view mark, std::string_view usage);

// Megatron's flags, a line each, indented.
std::string megatron_flag_lines(MegatronConfig config, std::vector<Note>& notes);
// read_megatron_flags() judges flags of experts if the flags, or the model that was asked for, have
// experts.
MegatronConfig read_megatron_flags(const ObjectReader& root, const ImportRequest& request,
                                   Imported& result);

}  // namespace sim
