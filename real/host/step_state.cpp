#include "real/host/step_state.hpp"

#include "sim/base/check.hpp"

namespace real {

void StepState::begin(const StepInput& input, const sim::Layout& layout) {
  const auto sequence = static_cast<std::size_t>(layout.sequence_length);
  const auto rows = static_cast<std::size_t>(layout.micro_batches() * layout.micro_batch);
  SIM_CHECK(input.tokens.size() == rows * (sequence + 1), input.tokens.size(), rows, sequence);
  step = input.step;
  tokens = layout.micro_batch * layout.sequence_length;
  inputs.clear();
  targets.clear();
  for (std::size_t r = 0; r < rows; ++r) {
    const auto ids = input.tokens.subspan(r * (sequence + 1), sequence + 1);
    inputs.insert(inputs.end(), ids.begin(), ids.end() - 1);
    targets.insert(targets.end(), ids.begin() + 1, ids.end());
  }
  loss.assign(static_cast<std::size_t>(layout.micro_batches()), 0.0);
  square_sum = 0;
}

}  // namespace real
