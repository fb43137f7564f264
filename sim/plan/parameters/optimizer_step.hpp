// The end of a step: what is summed once per step, the gradient norm, the optimizer, updated
// weights.
#pragma once

#include <optional>

#include "sim/plan/parameters/host_optimizer.hpp"
#include "sim/plan/parameters/local_steps.hpp"
#include "sim/plan/parameters/unscaled_states.hpp"
#include "sim/plan/parameters/weight_gathering.hpp"

namespace sim::lowering {

class OptimizerStep : StagePart {
 public:
  OptimizerStep(LoweringContext& context, ParameterStore& store, WeightGathering& weights,
                LocalSteps& local_steps)
      : StagePart{context},
        store_{store},
        weights_{weights},
        local_steps_{local_steps},
        host_{context, store} {}

  void begin_step();
  void sum_tensor_gradients();
  void sum_tied_gradients();
  void optimizer_step();

 private:
  void zero_gradients();
  void touch_gradients(Access access);
  void write_updated_state();
  struct NormGroup {
    int ranks = 1;
    GroupRole role = GroupRole::world;
  };
  NormGroup norm_group() const;
  void gather_updated();
  std::int64_t summed_elements() const;
  std::int64_t owned_elements() const;
  std::int64_t all_elements() const;
  std::int64_t rest_of_muon() const;
  std::optional<int> launches_by_tensor() const;
  void take_scratch(std::int64_t bytes);
  int trained_tensors() const;
  std::int64_t largest_tensor() const;  // in elements
  std::int64_t moments_in_blocks() const;
  std::int64_t largest_group() const;
  enum class DeepSpeedOptimizer : std::uint8_t { absent, zero, bf16, fp16 };
  DeepSpeedOptimizer deepspeed_optimizer() const;
  std::int64_t norm_bytes() const;
  std::int64_t update_bytes() const;

  ParameterStore& store_;
  WeightGathering& weights_;
  LocalSteps& local_steps_;
  HostOptimizer host_;
};

}  // namespace sim::lowering
