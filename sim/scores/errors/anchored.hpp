// Forecasts that are anchored on one measured run, beside the other runs of the same job at other
// scales.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/scores/errors/error_rows.hpp"
#include "sim/scores/errors/time_error_fit.hpp"

namespace sim {

// The rows of a set that are of one job (JobTraits::job) in one layout but for the number of
// replicas and the batch, on several numbers of GPUs.
struct AnchoredGroup {
  std::string set, job, layout;
  std::string anchor;  // the row that it is anchored on: the first on the fewest GPUs
  int anchor_gpus = 0, most_gpus = 0;
  int rows = 0, held = 0;  // the others that count, and those within their anchored interval
  std::vector<double> without, with;                        // their absolute errors, relative
  std::vector<double> half_width_without, half_width_with;  // of ln(time)
};

// Held-out rows count; where a group has none, all. The errors of the forecasts and the interval
// are those of the other sets: `rows` without the group's set. `results`: forecast with traits.
// Throws Stopped.
std::vector<AnchoredGroup> anchored_groups(std::span<const SetResult> results,
                                           const TimeErrorFit& fit, const Control& control = {});

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
