// Forecasts that are anchored on measured runs, beside the other runs of the same job at other
// scales.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/scores/errors/error_rows.hpp"
#include "sim/scores/errors/time_error_fit.hpp"

namespace sim {

// AnchoredStudy says how jobs are anchored.
struct AnchoredStudy {
  int runs = 1;  // that a job is anchored on: those on the fewest GPUs
  // Mechanism::framework: as if no run named its framework.
  Mechanism without = Mechanism::none;
};

// The rows of a set that are of one job (JobTraits::job) in one layout but for the number of
// replicas and the batch, on several numbers of GPUs.
struct AnchoredGroup {
  std::string set, job, layout;
  std::string anchor;  // the first row that it is anchored on: the first on the fewest GPUs
  int anchor_gpus = 0, most_gpus = 0;  // of the largest run that it is anchored on; of all
  int rows = 0, held = 0;  // the others that count, and those within their anchored interval
  // Their absolute errors, relative: of the plain forecast, of that times the mean factor that the
  // anchor's runs are off by, and of the anchored one.
  std::vector<double> without, with_factor, with;
  std::vector<double> half_width_without, half_width_with;  // of ln(time)
};

// Held-out rows count; where a group has none, all. The errors of the forecasts and the interval
// are those of the other sets: `rows` without the group's set. `results`: forecast with traits, and
// without what the study leaves out; `fit` with everything.
// Throws Stopped.
std::vector<AnchoredGroup> anchored_groups(std::span<const SetResult> results,
                                           const TimeErrorFit& fit, const AnchoredStudy& study = {},
                                           const Control& control = {});

// AnchoredSum is over all runs together. REQUIRES: groups.
struct AnchoredSum {
  double median_without = 0, median_with = 0, within = 0;
};
AnchoredSum sum_of(std::span<const AnchoredGroup> groups);

std::string anchored_groups_table(std::span<const AnchoredGroup> groups);
std::string anchored_groups_csv(std::span<const AnchoredGroup> groups);
std::string anchored_groups_markdown(std::span<const AnchoredGroup> groups);
std::string anchored_groups_json(std::span<const AnchoredGroup> groups);

}  // namespace sim
