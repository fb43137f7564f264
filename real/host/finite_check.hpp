// Which operator made the first number that is not finite.
#pragma once

#include <cstdint>

#include "real/engine/bound_program.hpp"
#include "real/host/arena.hpp"
#include "real/host/step_state.hpp"

namespace real {

class FiniteCheck {
 public:
  FiniteCheck(const BoundProgram& program, Arena& arena, const StepState& state)
      : program_{program}, arena_{arena}, state_{state} {}

  void watch(bool on);
  // While watching, looks at all that `op` has written.
  void finished(sim::OpId op);
  // In order of issue; -1: none. A collective or a receive hands on what another rank made.
  std::int64_t first() const { return first_; }

 private:
  bool wrote_finite(const BoundOp& op);
  bool is_finite(const BoundOp& op, sim::Role role);

  const BoundProgram& program_;
  Arena& arena_;
  const StepState& state_;
  bool on_ = false;
  std::int64_t first_ = -1;
};

}  // namespace real
