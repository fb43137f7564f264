// Settings that no step depends on, but the model or its optimizer does: taken from a job's file as
// they are, kept in the scenario, written back by an export to the same framework.
#pragma once

#include "sim/interop/settings.hpp"

namespace sim {

// carry_settings puts those of `result.ignored` into `result.carried`. `root`: of flags, or of the
// sections of Megatron-Bridge, whose keys are "section.key".
void carry_settings(const ObjectReader& root, Target target, Imported& result);

// carried_for is what a scenario has for `target`. What it has for another one is a note.
const std::vector<std::pair<std::string, std::string>>& carried_for(const Scenario& scenario,
                                                                    Target target,
                                                                    std::vector<Note>& notes);

// lacks_rotary_base tells whether flags of Megatron-LM leave the base of rotary positions open.
bool lacks_rotary_base(const Scenario& scenario);

// carried_flag_lines is a flag a line, as megatron_flag_lines() writes them.
std::string carried_flag_lines(const std::vector<std::pair<std::string, std::string>>& settings);

}  // namespace sim
