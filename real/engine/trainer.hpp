// Training on one rank: initial state, steps, what all ranks learn of a step, timeline,
// checkpoints. All ranks call the same functions in the same order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "real/engine/backend.hpp"
#include "real/engine/control.hpp"
#include "real/engine/data/tokens.hpp"
#include "real/engine/kept_state.hpp"
#include "real/engine/kernels/algorithms.hpp"
#include "real/engine/parameters.hpp"
#include "real/net/heartbeat.hpp"
#include "real/net/transport.hpp"
#include "sim/layout/training.hpp"
#include "sim/timeline/timeline.hpp"

namespace real {

// A step made a number that is not finite. The message names step, rank and operator.
class NotFinite : public SharedFailure {
 public:
  using SharedFailure::SharedFailure;
};

struct TrainerSetup {
  const BoundProgram* program = nullptr;  // all of these outlive the trainer
  Backend* backend = nullptr;
  Transport* transport = nullptr;
  Heartbeat* heartbeat = nullptr;  // may be null
  const Samples* samples = nullptr;
  sim::Training training;
  int threads = 1;  // that make the initial weights
};

// StepResult is the result of a step, the same on all ranks.
struct StepResult {
  std::int64_t step = 0;
  double loss = 0;           // mean over all tokens of the global batch, or all its labels
  double gradient_norm = 0;  // before clipping
  double learning_rate = 0;
  sim::Duration time{};  // of the rank that took longest
};

// StepLoads are the experts that the tokens of a step have chosen, by layer, over all ranks.
struct StepLoads {
  std::int64_t step = 0;
  std::vector<LayerLoad> layers;
};

struct RankMemory {
  std::int64_t arena = 0;   // most bytes of it in use
  std::int64_t device = 0;  // bytes of the device beside them
};

class Trainer {
 public:
  explicit Trainer(const TrainerSetup& setup);

  // Either of these comes first: weights from the seed, or all state from a checkpoint. Throws
  // InputError naming the file that is missing, torn, changed or of another model.
  void start();
  void resume(const std::string& folder);
  // A third one: the state that a trainer of the same parameters has kept, and its next step.
  void go_on(const KeptState& kept);
  // REQUIRES: as keep_state().
  KeptState keep();

  std::int64_t next_step() const { return next_step_; }
  // Throws NotFinite on every rank.
  StepResult step(bool record);
  // A step of this rank alone, which waits for no other: `loss` is its own, per token. Throws
  // std::runtime_error where that is not finite.
  StepResult step_alone();
  // Steps of all ranks, made by step_alone(): those that all have, with the mean of their losses
  // and times. All ranks call it.
  std::vector<StepResult> agree_on(const std::vector<StepResult>& own);
  void save(const std::string& folder);

  // On rank 0, empty elsewhere: the last recorded step of all ranks. `engine`: "host" or "cuda".
  std::optional<sim::Timeline> timeline(const std::string& engine, const Algorithms& algorithms);
  std::vector<RankMemory> memory();
  // On rank 0, empty elsewhere: of every step so far, where routers choose by their scores.
  std::vector<StepLoads> expert_loads();

 private:
  StepOutcome run_step(bool record, bool together);
  StepResult agree_on(const StepOutcome& outcome);

  TrainerSetup setup_;
  Control control_;
  std::vector<Parameter> parameters_;
  std::int64_t next_step_ = 0;
  std::vector<sim::Span> spans_;  // of the step recorded last
  std::vector<StepLoads> loads_;  // of this rank
};

}  // namespace real
