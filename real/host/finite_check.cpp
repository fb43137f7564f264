#include "real/host/finite_check.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "real/host/kernels_elementwise.hpp"

namespace real {

using sim::Action;
using sim::Role;

namespace {

// Roles that operators write.
constexpr std::array written{Role::output,          Role::saved,   Role::input_gradient,
                             Role::weight_gradient, Role::maximum, Role::target_logit,
                             Role::exponential_sum};

bool of_bucket(Action action) {
  return action == Action::gather_weights || action == Action::reduce ||
         action == Action::replicate || action == Action::accumulate ||
         action == Action::sum_tied_gradient;
}

}  // namespace

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
  return std::all_of(written.begin(), written.end(),
                     [&](Role role) { return is_finite(op, role); });
}

// Nothing writes the padding of a bucket: it may be anything.
bool FiniteCheck::is_finite(const BoundOp& op, Role role) {
  std::span<const float> values = arena_.maybe(op, role);
  if (of_bucket(op.action)) {
    const BoundBucket& bucket = program_.buckets.at(op.subject);
    const bool shard = static_cast<std::int64_t>(values.size()) < bucket.padded;
    const std::int64_t real = bucket.elements - (shard ? bucket.owned_first : 0);
    values = values.first(
        std::min(values.size(), static_cast<std::size_t>(std::max<std::int64_t>(real, 0))));
  }
  return all_finite(values);
}

}  // namespace real
