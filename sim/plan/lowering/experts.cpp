// Routers, and the way of tokens to experts and back.
//
// A router scores its tokens and hands them on; what it keeps is the choice. Tokens are copied once
// for each choice, sent to the ranks of the experts, gathered by those that share an expert's
// features, and sorted; behind the experts they go the same way back (sharding_experts.cpp). The
// weights of the choices go with the tokens, in an exchange of their own, and their gradients come
// back. Kernels wait for every exchange, which waits for the kernels before it (Megatron-LM,
// core/tensor_parallel/mappings.py, all_to_all, on the current stream).
#include <algorithm>
#include <utility>

#include "sim/plan/lowering/stage_lowering.hpp"

namespace sim::lowering {

// Grouped products run on four streams, each with a workspace of its own (Transformer Engine 2,
// pytorch/module/base.py, get_multi_stream_cublas_workspace; of Hopper and later).
void StageLowering::allocate_expert_workspaces() {
  constexpr std::int64_t streams = 4, workspace = (32LL << 20) + 1024;
  const bool grouped = std::any_of(blocks_.begin(), blocks_.end(), [&](const StageBlock& block) {
    const auto& ops = model_.blocks[block.shape].ops;
    return std::any_of(ops.begin(), ops.end(),
                       [](const ShardedOp& op) { return op.op->experts > 0; });
  });
  if (grouped) builder_.buffer(Bytes{streams * workspace}, BufferCategory::activations, true);
}

void StageLowering::intern_experts(const ShardedOp& op, ExpertWork& work) {
  const std::string& name = op.op->name;
  if (op.choose) {
    work.choose_name = builder_.name(name + ".choose");
    work.choose = builder_.kernel(*op.choose);
    work.choose_backward = builder_.kernel(*op.choose_backward);
    return;
  }
  const ExpertExchange& exchange = *op.experts;
  work.move_name = builder_.name(name + ".permute");
  work.permute = builder_.kernel(exchange.permute);
  work.unpermute = builder_.kernel(exchange.unpermute);
  if (exchange.sort) work.sort = builder_.kernel(*exchange.sort);
  const DType dtype = layout_.activation_dtype;
  if (layout_.expert_parallel > 1) {
    work.exchange_name = builder_.name(name + ".all_to_all");
    work.exchange =
        builder_.collective({CollectiveKind::all_to_all, GroupRole::expert, dtype, exchange.came});
    if (op.op->kind == ModelOpKind::dispatch)
      work.exchange_weights = builder_.collective(
          {CollectiveKind::all_to_all, GroupRole::expert, DType::fp32, exchange.weights});
  }
  if (layout_.expert_tensor() == 1) return;
  work.gather_name = builder_.name(name + ".all_gather");
  work.scatter_name = builder_.name(name + ".reduce_scatter");
  const auto make = [&](CollectiveKind kind, DType of, Bytes bytes) {
    return builder_.collective({kind, GroupRole::expert_tensor, of, bytes});
  };
  work.gather = make(CollectiveKind::all_gather, dtype, exchange.gathered);
  work.scatter = make(CollectiveKind::reduce_scatter, dtype, exchange.gathered);
  if (op.op->kind != ModelOpKind::dispatch) return;
  work.gather_weights = make(CollectiveKind::all_gather, DType::fp32, exchange.weights_gathered);
  work.scatter_weights =
      make(CollectiveKind::reduce_scatter, DType::fp32, exchange.weights_gathered);
}

Value StageLowering::forward_router(Frame& frame, std::size_t i, Value x) {
  const ShardedOp& op = frame.shape->ops[i];
  const OpWork& work = frame.work->ops[i];
  wait_for(x);
  const Value scores = fresh(op.whole_output);
  compute(frame, i, work.forward, work.name, Action::forward);
  read(x, Role::input);
  read_weight(frame, i);
  builder_.writes(scores.buffer, Role::output);
  compute(frame, i, work.experts.choose, work.experts.choose_name, Action::choose);
  drop(scores, Role::input);
  BufferId choice = activation(op.saved - x.bytes);
  builder_.writes(choice, Role::saved);
  choice_weights_ = fresh(frame.shape->ops[i + 1].experts->weights);  // dispatch stands behind it
  builder_.writes(choice_weights_.buffer, Role::choice_weights);
  if (!frame.keep) {
    let_go(choice, Role::saved);
    return x;
  }
  hold(x.buffer);
  frame.saved[i].input = x.buffer;
  frame.saved[i].extra = choice;
  return x;
}

Value StageLowering::backward_router(Frame& frame, std::size_t i, Value gradient) {
  const ShardedOp& op = frame.shape->ops[i];
  const OpWork& work = frame.work->ops[i];
  Saved& saved = frame.saved[i];
  wait_for(gradient);
  wait_for(choice_gradient_);
  const Value scores = fresh(op.whole_output);
  compute(frame, i, work.experts.choose_backward, work.experts.choose_name,
          Action::choose_backward);
  let_go(saved.extra, Role::saved);
  drop(std::exchange(choice_gradient_, {}), Role::choice_gradient);
  builder_.writes(scores.buffer, Role::input_gradient);
  Value made = fresh(op.input);
  made.ready =
      compute(frame, i, work.input_gradients.front(), work.gradient_name, Action::input_gradient);
  read(scores, Role::gradient);
  read_weight(frame, i);
  builder_.writes(made.buffer, Role::input_gradient);
  compute(frame, i, work.weight_gradients.front(), work.weight_name, Action::weight_gradient);
  drop(scores, Role::gradient);
  let_go(saved.input, Role::input);
  const Place& own = parameters_[site(frame, i)].own;
  add_gradient(frame, i, own, write_gradient(frame, own));
  gradient_ready(frame, i);
  // Of the tokens that went on to the experts, of those that another branch started from, and of
  // those that went past all of it (post-norm).
  const Value lent = std::exchange(lent_gradient_[i], {});
  const Value past = std::exchange(gradient_past_branch_[i], {});
  for (const Value& part : {made, lent, past}) {
    if (!part.exists()) continue;
    wait_for(part);
    gradient.ready =
        compute(frame, i, work.add_gradient, work.add_gradient_name, Action::add_product_gradient);
    drop(part, Role::input);
    builder_.writes(gradient.buffer, Role::input_gradient);
  }
  return gradient;
}

Value StageLowering::move_tokens(const Frame& frame, std::size_t i, const Value& x,
                                 std::uint32_t kernel, Bytes bytes, Action action) {
  wait_for(x);
  Value moved = fresh(bytes);
  moved.ready = compute(frame, i, kernel, frame.work->ops[i].experts.move_name, action);
  drop(x, Role::input);
  builder_.writes(moved.buffer, Role::output);
  return moved;
}

Value StageLowering::exchange_tokens(const Frame& frame, std::size_t i, const Value& x,
                                     std::uint32_t work, std::uint32_t name, Bytes bytes) {
  Value came = fresh(bytes);
  came.ready = tensor_collective(frame, i, work, name, Action::exchange_tokens);
  drop(x, Role::input);
  builder_.writes(came.buffer, Role::output);
  return came;
}

// A few bytes for each choice, which the activation of its expert multiplies by.
void StageLowering::send_weights(const Frame& frame, std::size_t i) {
  const ExpertWork& work = frame.work->ops[i].experts;
  const ExpertExchange& exchange = *frame.shape->ops[i].experts;
  if (work.exchange_weights != none)
    choice_weights_ = exchange_tokens(frame, i, choice_weights_, work.exchange_weights,
                                      work.exchange_name, exchange.weights_came);
  if (work.gather_weights != none)
    choice_weights_ = exchange_tokens(frame, i, choice_weights_, work.gather_weights,
                                      work.gather_name, exchange.weights_gathered);
}

// Of an expert whose features several ranks share, each has a part of the sum.
void StageLowering::scatter_weights(const Frame& frame, std::size_t i) {
  const ExpertWork& work = frame.work->ops[i].experts;
  if (work.scatter_weights == none) return;
  choice_gradient_ = exchange_tokens(frame, i, choice_gradient_, work.scatter_weights,
                                     work.scatter_name, frame.shape->ops[i].experts->weights_came);
}

void StageLowering::return_weights(const Frame& frame, std::size_t i) {
  const ExpertWork& work = frame.work->ops[i].experts;
  if (work.exchange_weights == none) return;
  choice_gradient_ = exchange_tokens(frame, i, choice_gradient_, work.exchange_weights,
                                     work.exchange_name, frame.shape->ops[i].experts->weights);
}

// The kernel added last is an expert's activation, if it is one of an expert.
void StageLowering::weigh_choices(Frame& frame, std::size_t i) {
  const ModelOp& op = *frame.shape->ops[i].op;
  if (op.experts == 0 || op.kind != ModelOpKind::elementwise) return;
  const Value weights = std::exchange(choice_weights_, {});
  if (!frame.keep) return drop(weights, Role::choice_weights);
  read(weights, Role::choice_weights);
  frame.saved[i].weights = weights.buffer;
}

void StageLowering::weigh_choices_backward(const Frame& frame, std::size_t i) {
  Saved& saved = frame.saved[i];
  if (saved.weights.value == none) return;
  choice_gradient_ = fresh(builder_.size_of(saved.weights));
  let_go(saved.weights, Role::choice_weights);
  builder_.writes(choice_gradient_.buffer, Role::choice_gradient);
}

// Forward of dispatch, backward of combine. How many tokens go where the router's device knows; the
// host asks as late as it can (Megatron-LM, core/transformer/moe/token_dispatcher.py,
// cuda_sync_point "before_ep_alltoall"; padded experts need no counts).
Value StageLowering::send_to_experts(Frame& frame, std::size_t i, const Value& x) {
  const ShardedOp& op = frame.shape->ops[i];
  const ExpertWork& work = frame.work->ops[i].experts;
  const ExpertExchange& exchange = *op.experts;
  const OpId chosen = builder_.last(Stream::compute);
  Value tokens = move_tokens(frame, i, x, work.permute, exchange.sent);
  if (op.op->kind == ModelOpKind::dispatch && model_.model->execution.waits_for_counts)
    builder_.host_waits_for(chosen);
  if (frame.pass != Pass::backward) keep_beside(frame, i, op.saved);
  if (op.op->kind == ModelOpKind::dispatch) send_weights(frame, i);
  if (work.exchange != none)
    tokens = exchange_tokens(frame, i, tokens, work.exchange, work.exchange_name, exchange.came);
  if (work.gather != none)
    tokens = exchange_tokens(frame, i, tokens, work.gather, work.gather_name, exchange.gathered);
  if (work.sort != none)
    tokens = move_tokens(frame, i, tokens, work.sort, exchange.gathered, Action::sort_tokens);
  return tokens;
}

// Forward of combine, backward of dispatch.
Value StageLowering::bring_from_experts(Frame& frame, std::size_t i, const Value& x) {
  const ShardedOp& op = frame.shape->ops[i];
  const ExpertWork& work = frame.work->ops[i].experts;
  const ExpertExchange& exchange = *op.experts;
  Value tokens = x;
  if (work.sort != none)
    tokens = move_tokens(frame, i, tokens, work.sort, exchange.gathered, Action::sort_tokens);
  const bool dispatch = op.op->kind == ModelOpKind::dispatch;
  if (work.scatter != none)
    tokens = exchange_tokens(frame, i, tokens, work.scatter, work.scatter_name, exchange.came);
  if (dispatch) scatter_weights(frame, i);
  if (work.exchange != none)
    tokens = exchange_tokens(frame, i, tokens, work.exchange, work.exchange_name, exchange.sent);
  if (dispatch) return_weights(frame, i);
  const Value sum = move_tokens(frame, i, tokens, work.unpermute, dispatch ? op.input : op.output);
  if (dispatch) let_go(frame.saved[i].extra, Role::saved);
  return sum;
}

}  // namespace sim::lowering
