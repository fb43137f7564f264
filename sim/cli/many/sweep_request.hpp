// The request of `stepcast sweep`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/cli/many/point_request.hpp"
#include "sim/cli/train/job_host.hpp"
#include "sim/sweep/sweep_job.hpp"

namespace sim {

struct SweepRequest : PointRequest {
  std::vector<std::string> over;
  bool best = false;
  std::string plot;
  WorkOptions work;
};

// The command, with which a recorded question is read again too.
Command sweep_command_of(const std::shared_ptr<SweepRequest>& request);

ExitCode run_sweep_request(const SweepRequest& request);
// The same from records that were merged.
ExitCode run_sweep_request(const SweepRequest& request, ResultCache& book, const JobKey& recorded);

}  // namespace sim
