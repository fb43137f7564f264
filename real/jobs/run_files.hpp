// The files that a training run leaves: a trace and a record of its last step, checkpoints.
#pragma once

#include <string>
#include <vector>

#include "real/jobs/training_run.hpp"

namespace real {

struct RunFiles {
  std::string trace{};   // Perfetto/Chrome trace; empty: none
  std::string record{};  // for `stepcast compare`; empty: none
  std::string loads{};   // tokens of each expert, as layout.moe.load reads them; empty: none
};

// Throws InputError for a file or a checkpoint folder that cannot be written: now, not when all is
// trained. Makes the folder.
void require_writable(const RunFiles& files, const std::string& checkpoint);

// Writes them, and returns a line for each: where it is.
std::vector<std::string> write_run_files(const RunFiles& files, const sim::Scenario& scenario,
                                         const sim::Plan& plan, const TrainingRun& run);

}  // namespace real
