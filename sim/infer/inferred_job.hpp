// The job that a trace is of, as a scenario: what the trace says, and what was assumed.
#pragma once

#include <string>
#include <vector>

#include "sim/explain/steps.hpp"
#include "sim/trace/traced_run.hpp"

namespace sim {

struct InferredKey {
  std::string key, value;  // of the scenario
  std::string from;        // "weight gradients of 128 layers a step"
  bool assumed = false;    // the trace does not tell: a default of its kind
};

struct InferredJob {
  std::vector<InferredKey> keys;
  std::vector<std::string> notes;  // what it could also be
};

// Facts that the user knows; empty and 0: the trace is to tell.
struct JobHints {
  std::string model{}, cluster{};
  std::int64_t sequence_length = 0;
};

// infer_job recognises a shipped model by the widths of its layers, and the layout by how often
// they run, by the communicators and by what they carry. Throws InputError: no product has a shape,
// no shipped model has the widths (with those that were seen), the GPU is not known.
InferredJob infer_job(const TracedRun& run, const RunSteps& steps, const JobHints& hints = {});

// The scenario file, with each key's reason beside it.
std::string inferred_scenario(const InferredJob& job, const std::string& name);
std::string inferred_table(const InferredJob& job);

}  // namespace sim
