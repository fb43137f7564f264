// Options of commands that take the file of a training job.
#pragma once

#include "sim/cli/command.hpp"
#include "sim/interop/job_file.hpp"

namespace sim {

// job_options() are the file, and what any job may leave open.
Options job_options(JobFile& request);
// options_of_kind() adds what only some kinds of files need; options_of_any_kind() all of that.
Options options_of_kind(JobKind kind, JobFile& request);
Options options_of_any_kind(JobFile& request);

}  // namespace sim
