// Files of jobs, each with the reader of its framework; of a file that only starts a job, with the
// reader of what it starts.
#pragma once

#include "sim/interop/job_file.hpp"

namespace sim {

// Throws InputError.
Imported import_file(JobKind kind, const JobFile& job, const ImportRequest& known);

}  // namespace sim
