// A sweep as a job of sim/distribute: what its ranks read, and the key of its records.
#pragma once

#include <string>
#include <vector>

#include "sim/distribute/job_key.hpp"
#include "sim/distribute/worker_pool.hpp"
#include "sim/sweep/sweep.hpp"

namespace sim {

// A sweep as it is asked for: the arguments of load_sweep().
struct SweepQuestion {
  std::string scenario;
  std::vector<std::string> overrides;  // "section.key=value", at every point
  std::vector<std::string> over;       // "section.key=values"
  bool best = false;                   // the layout is searched anew at every point
};
SweepSpecification load_sweep(const SweepQuestion& question);

class SweepJob {
 public:
  explicit SweepJob(SweepQuestion question) : question_{std::move(question)} {}

  // Reads the input, once. Throws as load_sweep() does.
  JobKey load();
  // One point. REQUIRES: load(). Thread-safe.
  std::string forecast(std::uint64_t unit) const { return forecast_(unit); }
  const SweepSpecification& specification() const { return specification_; }

 private:
  SweepQuestion question_;
  SweepSpecification specification_;
  Task forecast_;
};

}  // namespace sim
