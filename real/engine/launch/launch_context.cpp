// Attention over context ranks: which slices, and which parts of [q|k|v], an operator works on
// (the tapes: sim/plan/sharding/context_tapes.cpp).
#include "real/engine/launch/kernel_launches.hpp"
#include "sim/base/check.hpp"
#include "sim/plan/sharding/sharding.hpp"

namespace real {

using kernels::as_launch;
using kernels::Launch;
using sim::Action;
using sim::Pass;
using sim::Role;

bool KernelLaunches::attends_over_ranks() const {
  const sim::Layout& layout = shapes_.layout();
  return layout.context_parallel > 1 && !sim::exchanges_heads(layout);
}

Launch KernelLaunches::context_op(const BoundOp& op) {
  SIM_CHECK(parts_.context != nullptr, op.model_op->name);
  switch (op.action) {
    case Action::attend:
      return attend_slice(op);
    case Action::attend_backward:
      return attend_slice_backward(op);
    case Action::merge_outputs: {
      const kernels::SliceShape shape = slices(op);
      return as_launch(parts_.context->merge_outputs, shape,
                       kernels::MergedOutputs{.part = at(op, Role::input),
                                              .part_sums = sums_behind(op, Role::input, shape),
                                              .output = at(op, Role::output),
                                              .log_sum_exp = floats(at(op, Role::saved))});
    }
    case Action::merge_gradients: {
      const bool last = op.turn + 1 == shapes_.layout().context_parallel;
      const auto turn = op.turn == 0 ? kernels::MergeTurn::first
                        : last       ? kernels::MergeTurn::last
                                     : kernels::MergeTurn::middle;
      return as_launch(parts_.context->merge_gradients, slices(op),
                       kernels::MergedGradients{.turn = turn,
                                                .part = at(op, Role::input),
                                                .qkv_gradient = at(op, Role::input_gradient),
                                                .keys_gradient = at(op, Role::keys_gradient)});
    }
    case Action::order_for_exchange:
      return as_launch(parts_.context->order_by_rank, head_exchange(op), at(op, Role::input),
                       at(op, Role::output));
    default:
      SIM_CHECK(op.action == Action::order_behind_exchange, static_cast<int>(op.action));
      return as_launch(parts_.context->order_by_token, head_exchange(op), at(op, Role::input),
                       at(op, Role::output));
  }
}

// Gathered slices are those of all ranks. Round the ring they come from the ranks before, one by
// one; in the backward pass they go back, from the one that came last to the rank's own.
kernels::SliceShape KernelLaunches::slices(const BoundOp& op) const {
  const sim::Layout& layout = shapes_.layout();
  const int ranks = layout.context_parallel, rank = parts_.program.at.context;
  const std::int64_t row = shapes_.heads(0).row() * sim::bytes_of(shapes_.activations());
  kernels::SliceShape shape{.heads = shapes_.heads(layout.micro_batch * layout.tokens_held() * row),
                            .causal = parts_.program.model->attention.causal,
                            .first = rank};
  if (op.kind == sim::OpKind::attention) shape.rules = score_rules(op);
  if (op.action == Action::attend) shape.first = (rank - op.turn - 1 + ranks) % ranks;
  if (op.action == Action::attend_backward) shape.first = (rank + op.turn + 1) % ranks;
  const bool gathered = op.action == Action::forward || op.action == Action::backward;
  if (gathered && op.operand(Role::keys).exists()) shape.first = 0, shape.count = ranks;
  return shape;
}

// The log-sum-exps of a part lie behind it.
float* KernelLaunches::sums_behind(const BoundOp& op, Role role,
                                   const kernels::SliceShape& shape) const {
  return floats(at(op, role) + shape.outputs() * sim::bytes_of(shapes_.activations()));
}

Launch KernelLaunches::attend_slice(const BoundOp& op) {
  const kernels::SliceShape shape = slices(op);
  float* sums = op.action == Action::attend ? sums_behind(op, Role::output, shape)
                                            : floats(at(op, Role::saved));
  return as_launch(parts_.context->attend, shape, at(op, Role::input), at(op, Role::keys),
                   at(op, Role::output), sums);
}

Launch KernelLaunches::attend_slice_backward(const BoundOp& op) {
  const Role to = op.action == Action::backward ? Role::input_gradient : Role::output;
  return as_launch(parts_.context->attend_backward, slices(op),
                   kernels::SliceBackward{.attention = {.qkv = at(op, Role::input),
                                                        .output = at(op, Role::saved_output),
                                                        .log_sum_exp = floats(at(op, Role::saved)),
                                                        .gradient = at(op, Role::gradient),
                                                        .qkv_gradient = at(op, to)},
                                          .keys = at(op, Role::keys),
                                          .keys_gradient = at(op, Role::keys_gradient)},
                   workspace(op));
}

// Forward, queries, keys and values go to the ranks of their heads, then the output comes back;
// backward, the output's gradient goes there, then those of queries, keys and values come back.
kernels::HeadExchange KernelLaunches::head_exchange(const BoundOp& op) const {
  const sim::Layout& layout = shapes_.layout();
  const kernels::HeadsShape heads = shapes_.heads(0);
  const std::int64_t ranks = layout.context_parallel, d = heads.head_dim;
  const bool backward = op.pass == Pass::backward;
  const int part = backward ? op.turn - 1 : op.turn;  // 0, 1, 2: queries, keys, values
  const bool of_output = part < 0 || part == 3;
  const bool to_heads = of_output == backward;
  const bool of_queries = of_output || part == 0;
  const std::int64_t before = part == 1   ? heads.heads
                              : part == 2 ? heads.heads + heads.kv_heads
                                          : 0;
  kernels::HeadExchange shape{
      .dtype = heads.dtype,
      .sequences = layout.micro_batch * layout.tokens_held() / heads.sequence,
      .held = heads.sequence,
      .ranks = ranks,
      .row = of_output ? heads.heads * d : heads.row(),
      .first = before * d,
      .width = (of_queries ? heads.heads : heads.kv_heads) * d / ranks,
      .all_tokens = to_heads == (op.action == Action::order_behind_exchange)};
  if (shape.all_tokens) shape.row /= ranks, shape.first /= ranks;
  return shape;
}

}  // namespace real
