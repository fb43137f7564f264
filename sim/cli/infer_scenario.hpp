// The job that traces are of, written as a scenario.
#pragma once

#include "sim/cli/command.hpp"
#include "sim/infer/inferred_job.hpp"

namespace sim {

struct InferRequest {
  std::string file;  // empty: not asked
  JobHints hints;
};

Options infer_options(InferRequest& request);

// write_inferred writes the scenario, and says what was told and what was assumed. Throws as
// infer_job() does.
void write_inferred(const TracedRun& run, const InferRequest& request);

}  // namespace sim
