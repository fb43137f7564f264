// This program around a job of sim/distribute: its options, notes, failures and signals.
#pragma once

#include "sim/base/control.hpp"
#include "sim/cli/command.hpp"
#include "sim/distribute/job.hpp"

namespace sim {

// --threads, --results, --resume and --shard.
Options work_options(WorkOptions& options);

// run_job() and run_job_from() of this program.
ExitCode run_here(const WorkOptions& options, const Job& job);
ExitCode run_recorded(ResultCache& book, const JobKey& recorded, int threads, const Job& job);

// Stopped by Ctrl-C; by SIGTERM too where that is all that mpirun lets ranks hear of Ctrl-C. The
// second one ends the program.
Control stop_on_signals(bool also_terminate);

}  // namespace sim
