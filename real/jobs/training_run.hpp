// A scenario trained for real: `stepcast run`, and what a forecast of it is compared with.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "real/engine/trainer.hpp"
#include "real/jobs/elastic.hpp"
#include "real/jobs/engine_choice.hpp"
#include "real/launch/launch.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/servers/staleness.hpp"
#include "sim/timeline/timeline.hpp"

namespace real {

// DroppedMessages: what becomes of those that the network drops. resent: they come later, and
// nothing else changes. lost: what a rank gave to an average is missing there.
enum class DroppedMessages : std::uint8_t { resent, lost };
constexpr auto words_of(DroppedMessages) {
  return std::array{sim::Word{DroppedMessages::resent, "resent"},
                    sim::Word{DroppedMessages::lost, "lost"}};
}

// A network that drops messages between ranks of the host backend, drawn by training.seed.
struct DroppingNetwork {
  double rate = 0;  // chance of each message; below 1
  DroppedMessages dropped = DroppedMessages::resent;
  double timeout = 1e-3;  // s, until a message is sent again
};

struct TrainingRunOptions {
  BackendChoice backend = BackendChoice::automatic;
  // Steps left out of the times: caches, connections and clocks are cold. Fewer where there are
  // few.
  int warm_up = 3;
  std::string checkpoint{};  // folder; empty: none
  std::int64_t every = 0;    // steps between checkpoints; 0: at the end
  std::string resume{};      // checkpoint to go on from
  WorldOptions world{};
  int ranks_per_gpu = 0;
  DroppingNetwork network{};
  ElasticBatch elastic = ElasticBatch::off;  // threads: a lost rank leaves a smaller job
  bool processes = false;  // host: ranks as processes instead of threads (cuda: always)
  double failure_timeout = 30, join_timeout = 60, setup_timeout = 600;  // seconds
  std::int64_t log_every = 0;                          // steps between lines of progress; 0: none
  std::function<void(const std::string& line)> log{};  // hears them, on the thread of rank 0
  std::string inject{};
  // Hears every step when it is trained, on the thread of rank 0: also those of a run that fails.
  std::function<void(const StepResult& step)> on_step{};
  std::stop_token stop{};  // of ranks that are threads: ends the run as an interrupt does
};

// The result, on rank 0.
struct TrainingRun {
  std::string backend;      // "host" or "cuda"
  std::string launched_by;  // "threads", "processes", "torchrun", "Open MPI", "Slurm", ...
  std::vector<StepResult> steps;
  std::int64_t next_step = 0;  // that a run which goes on from here would train
  std::size_t warm_up = 0;     // of the steps, not counted in times
  // The timeline of the last step, with a track of every rank. Empty if a run on cuda was
  // interrupted: recording costs time there, so only the step that is the last of the plan is
  // recorded. Empty also where ranks wait for parameter servers alone, and where a rank was lost.
  sim::Timeline timeline;
  std::vector<RankMemory> memory;
  std::vector<std::int64_t> planned_arena;  // by rank
  sim::Staleness staleness;                 // of parameter servers
  std::vector<StepLoads> expert_loads;      // of all steps, where routers choose by their scores
  std::vector<LostRank> lost;
  bool interrupted = false;
  std::vector<sim::Duration> counted_times() const;  // sorted
};

// as_executed is a scenario as the engine runs it: gradients are clipped and new weights written in
// Adam's kernel, whatever framework.separate_update says. What was changed is in `followed`.
sim::Scenario as_executed(sim::Scenario scenario);

// Throws the InputError with which train_scenario() would refuse, without training.
void require_executable(const sim::Scenario& scenario, const sim::Plan& plan,
                        const TrainingRunOptions& options);

// Trains and calls `report` on rank 0 when all is done. Throws InputError for what cannot be
// executed, by operator. REQUIRES: plan is that of the scenario.
RunResult train_scenario(const sim::Scenario& scenario, const sim::Plan& plan,
                         const TrainingRunOptions& options,
                         const std::function<void(const TrainingRun&)>& report);

}  // namespace real
