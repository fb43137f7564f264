// Files of jobs, each with the reader of its framework. A file that only starts a job goes to
// the reader of what it starts.
#pragma once

#include "sim/interop/job_file.hpp"

namespace sim {

// Throws InputError.
Imported import_file(JobKind kind, const JobFile& job, const ImportRequest& known);

}  // namespace sim
