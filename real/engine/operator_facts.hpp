// What both backends ask of an operator beside its operands. Inline: a backend links no engine.
#pragma once

#include <algorithm>
#include <array>

#include "real/engine/bound_program.hpp"
#include "real/net/collectives.hpp"

namespace real {

// How the ranks of its group put their parts together.
constexpr Reduction reduction_of(sim::Action action) {
  switch (action) {
    case sim::Action::reduce_maximum:
      return Reduction::maximum;
    case sim::Action::reduce:
    case sim::Action::replicate:
      return Reduction::average;
    default:
      return Reduction::sum;
  }
}

// Roles that operators write.
inline constexpr std::array written_roles{sim::Role::output,         sim::Role::saved,
                                          sim::Role::input_gradient, sim::Role::weight_gradient,
                                          sim::Role::maximum,        sim::Role::target_logit,
                                          sim::Role::exponential_sum};

constexpr bool acts_on_bucket(sim::Action action) {
  using sim::Action;
  return action == Action::gather_weights || action == Action::reduce ||
         action == Action::replicate || action == Action::accumulate ||
         action == Action::cast_out || action == Action::cast_in ||
         action == Action::sum_tied_gradient;
}

// The elements that mean something of an operand of `elements` that `op` writes. Nothing writes the
// padding of a bucket: there it may hold anything.
inline std::int64_t written_elements(const BoundProgram& program, const BoundOp& op,
                                     std::int64_t elements) {
  if (!acts_on_bucket(op.action)) return elements;
  const BoundBucket& bucket = program.buckets.at(op.subject);
  const bool shard = elements < bucket.padded;
  return std::clamp<std::int64_t>(bucket.elements - (shard ? bucket.owned_first : 0), 0, elements);
}

}  // namespace real
