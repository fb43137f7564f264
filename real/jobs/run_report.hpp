// RunReport is what `stepcast run` prints.
#pragma once

#include <string>
#include <vector>

#include "real/jobs/nccl_use.hpp"
#include "real/jobs/training_run.hpp"
#include "sim/timeline/breakdown.hpp"

namespace real {

struct RunReport {
  std::string scenario, model, backend, launched_by, machine;
  std::int64_t parameters = 0;
  sim::Layout layout;
  std::uint64_t seed = 0;
  std::vector<StepResult> steps;
  std::size_t warm_up = 0;
  sim::Duration median{}, shortest{}, longest{};  // of the counted steps
  double tokens_per_second = 0;
  sim::FlopRate model_rate;  // per rank: what the model needs, without recomputation
  sim::Duration recorded{};  // the step that the breakdown is of; 0: none
  sim::Breakdown breakdown;  // mean over ranks
  // Bytes of the rank that needs most.
  std::int64_t planned_arena = 0, used_arena = 0, device = 0;
  NcclUse nccl;                         // expected of the rank that has most, on GPUs
  sim::Staleness staleness;             // of parameter servers
  std::vector<LayerLoad> expert_loads;  // of the last step, where routers choose by their scores
  std::vector<LostRank> lost;
  bool interrupted = false;
};

RunReport make_run_report(const sim::Scenario& scenario, const sim::Plan& plan,
                          const TrainingRun& run);

std::string run_table(const RunReport& report);
std::string run_json(const RunReport& report);
std::string run_csv(const RunReport& report);
std::string run_markdown(const RunReport& report);

}  // namespace real
