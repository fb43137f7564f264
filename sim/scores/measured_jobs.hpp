// Jobs of Megatron-LM as their arguments, with the peak memory that they printed: imported and
// forecast as a user would (validation/jobs/README.md).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/rows/measured.hpp"

namespace sim {

// MeasuredJob is a row of the table, with the arguments of its family in front of its own.
struct MeasuredJob {
  std::string row, family, arguments, cluster;
  RowUse use = RowUse::score;
  int gpus = 0;
  Bytes peak{};  // torch.cuda.max_memory_allocated() of a rank of the last stage
};

struct JobResult {
  MeasuredJob job;
  std::optional<Bytes> forecast{};  // none: refused
  std::string refused{};            // why
  double error() const;             // REQUIRES: a forecast
};

// JobScore is of the rows of one use and one size.
struct JobScore {
  std::string name;  // "score, 8 GiB and more"
  int rows = 0, refused = 0;
  double median = 0, worst = 0;  // absolute errors
};

// `folder`: that of jobs.csv and jobs.yaml. Throws InputError with every mistake of either.
std::vector<MeasuredJob> load_jobs(const std::string& folder);
std::vector<JobResult> forecast_jobs(std::vector<MeasuredJob> jobs);
std::vector<JobScore> scores_of(std::span<const JobResult> results);
// Scores beyond the bounds of jobs.yaml, a line each.
std::vector<std::string> beyond_bounds(std::span<const JobScore> scores, const std::string& folder);

std::string jobs_table(std::span<const JobResult> results);

}  // namespace sim
