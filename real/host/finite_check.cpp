#include "real/host/finite_check.hpp"

#include <algorithm>
#include <cmath>

#include "real/engine/operator_facts.hpp"
#include "real/host/kernels_elementwise.hpp"

namespace real {

using sim::Action;
using sim::Role;

void FiniteCheck::watch(bool on) {
  on_ = on;
  if (on) first_ = -1;
}

void FiniteCheck::finished(sim::OpId op) {
  if (!on_) return;
  const auto index = static_cast<std::int64_t>(op.value);
  if (first_ >= 0 && first_ < index) return;
  if (!wrote_finite(program_.ops[op.value])) first_ = index;
}

bool FiniteCheck::wrote_finite(const BoundOp& op) {
  if (op.action == Action::gradient_norm || op.action == Action::sum_gradient_norm) {
    return std::isfinite(state_.square_sum);
  }
  return std::all_of(written_roles.begin(), written_roles.end(),
                     [&](Role role) { return is_finite(op, role); });
}

bool FiniteCheck::is_finite(const BoundOp& op, Role role) {
  const Operand& operand = op.operand(role);
  if (!operand.exists()) return true;
  const std::int64_t elements = operand.bytes / 4;
  const std::span<const float> values = arena_.floats({operand.offset, elements * 4});
  const std::int64_t written = written_elements(program_, op, role, elements);
  return all_finite(values.first(static_cast<std::size_t>(written)));
}

}  // namespace real
