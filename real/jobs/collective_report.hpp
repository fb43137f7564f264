// The collectives of a run, line by line, beside what the simulator says of each.
#pragma once

#include <string>
#include <vector>

#include "real/jobs/training_run.hpp"
#include "sim/timeline/collective_log.hpp"

namespace real {

// Time of each entry alone on the cluster of the scenario: no kernel beside it, nobody to wait for.
std::vector<sim::Duration> times_alone(const sim::Scenario& scenario, const sim::Plan& plan,
                                       sim::RankId rank,
                                       const std::vector<sim::CollectiveEntry>& entries);

// Collectives of rank 0 in the recorded step, as text; or that there was no recorded step.
std::string collective_report(const sim::Scenario& scenario, const sim::Plan& plan,
                              const TrainingRun& run);

}  // namespace real
