// Runs the actions on parameter buckets and on the state of the stage that are kernels: zeroing,
// sums of gradients, norm, Adam. Also packs what is summed over the tensor group.
#pragma once

#include "real/engine/bound_program.hpp"
#include "real/host/arena.hpp"
#include "real/host/step_state.hpp"
#include "sim/plan/training.hpp"

namespace real {

class StateOps {
 public:
  StateOps(const BoundProgram& program, const sim::Training& training, Arena& arena,
           StepState& state);
  void run(const BoundOp& op);

  // Gradients of Site::summed that this rank holds, one after another; the rest of `message` is
  // zero. And back.
  void pack_summed(std::span<float> message);
  void unpack_summed(std::span<const float> message);

 private:
  void zero_gradients();
  void gradient_norm();
  void adam();
  void adam_bucket(const BoundBucket& bucket, double scale);
  // The gradient of element `first` .. `first + count` of a bucket, as far as it is owned here.
  template <class Visit>
  void for_each_summed(Visit visit);

  const BoundProgram& program_;
  const sim::Training& training_;
  Arena& arena_;
  StepState& state_;
};

}  // namespace real
