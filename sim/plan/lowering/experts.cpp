// A router scores its tokens and hands them on; what it keeps is the choice. Tokens are copied once
// for each choice, sent to the ranks of the experts, gathered by those that share an expert's
// features, and sorted; behind the experts they go the same way back (sharding/experts.cpp). The
// weights of the choices go with the tokens, in an exchange of their own, and their gradients come
// back. Kernels wait for every exchange, which waits for the kernels before it (Megatron-LM,
// core/tensor_parallel/mappings.py, all_to_all, on the current stream).
#include "sim/plan/lowering/experts.hpp"

#include <algorithm>
#include <utility>

namespace sim::lowering {

// Grouped products run on four streams, each with a workspace of its own (Transformer Engine 2,
// pytorch/module/base.py, get_multi_stream_cublas_workspace; of Hopper and later).
void ExpertPass::allocate_expert_workspaces() {
  constexpr std::int64_t streams = 4, workspace = (32LL << 20) + 1024;
  const bool grouped =
      std::any_of(context_.blocks.begin(), context_.blocks.end(), [&](const StageBlock& block) {
        const auto& ops = model_.blocks[block.shape].ops;
        return std::any_of(ops.begin(), ops.end(),
                           [](const ShardedOp& op) { return op.op->experts > 0; });
      });
  if (grouped) builder_.buffer(Bytes{streams * workspace}, BufferCategory::activations, true);
}

void ExpertPass::intern_experts(const ShardedOp& op, ExpertWork& work) {
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

Value ExpertPass::forward_router(Frame& frame, std::size_t i, Value x) {
  const ShardedOp& op = frame.shape->ops[i];
  const OpWork& work = frame.work->ops[i];
  tensors_.wait_for(x);
  const Value scores = tensors_.allocate(op.whole_output);
  emit_.compute(frame, i, work.forward, work.name, Action::forward);
  tensors_.read(x, Role::input);
  emit_.read_weight(frame, i);
  builder_.writes(scores.buffer, Role::output);
  emit_.compute(frame, i, work.experts.choose, work.experts.choose_name, Action::choose);
  tensors_.drop(scores, Role::input);
  BufferId choice = tensors_.allocate_buffer(op.saved - x.bytes);
  builder_.writes(choice, Role::saved);
  choice_weights_ =
      tensors_.allocate(frame.shape->ops[i + 1].experts->weights);  // dispatch stands behind it
  builder_.writes(choice_weights_.buffer, Role::choice_weights);
  if (!frame.keep) {
    tensors_.release(choice, Role::saved);
    return x;
  }
  frame.saved[i].extra = choice;
  if (SavedTensors::input_comes_again(frame, i)) return x;
  tensors_.retain(x.buffer);
  frame.saved[i].input = x.buffer;
  return x;
}

Value ExpertPass::backward_router(Frame& frame, std::size_t i, Value gradient) {
  const ShardedOp& op = frame.shape->ops[i];
  const OpWork& work = frame.work->ops[i];
  Saved& saved = frame.saved[i];
  tensors_.wait_for(gradient);
  tensors_.wait_for(choice_gradient_);
  const Value scores = tensors_.allocate(op.whole_output);
  emit_.compute(frame, i, work.experts.choose_backward, work.experts.choose_name,
                Action::choose_backward);
  tensors_.release(saved.extra, Role::saved);
  tensors_.drop(std::exchange(choice_gradient_, {}), Role::choice_gradient);
  builder_.writes(scores.buffer, Role::input_gradient);
  Value made = tensors_.allocate(op.input);
  made.ready = emit_.compute(frame, i, work.input_gradients.front(), work.gradient_name,
                             Action::input_gradient);
  tensors_.read(scores, Role::gradient);
  emit_.read_weight(frame, i);
  builder_.writes(made.buffer, Role::input_gradient);
  emit_.compute(frame, i, work.weight_gradients.front(), work.weight_name, Action::weight_gradient);
  tensors_.drop(scores, Role::gradient);
  tensors_.release(saved.input, Role::input);
  const Place& own = store_.parameters[site(frame, i)].own;
  sums_.add_gradient(frame, i, own, sums_.write_gradient(frame, own));
  reduction_.gradient_ready(frame, i);
  // Of the tokens that went on to the experts, of those that another branch started from, and of
  // those that went past all of it (post-norm).
  const Value lent = std::exchange(branches_.lent_gradient[i], {});
  const Value past = std::exchange(branches_.gradient_past[i], {});
  for (const Value& part : {made, lent, past}) {
    if (!part.exists()) continue;
    tensors_.wait_for(part);
    gradient.ready = emit_.compute(frame, i, work.add_gradient, work.add_gradient_name,
                                   Action::add_product_gradient);
    tensors_.drop(part, Role::input);
    builder_.writes(gradient.buffer, Role::input_gradient);
  }
  return gradient;
}

Value ExpertPass::move_tokens(const Frame& frame, std::size_t i, const Value& x,
                              std::uint32_t kernel, Bytes bytes, Action action) {
  tensors_.wait_for(x);
  Value moved = tensors_.allocate(bytes);
  moved.ready = emit_.compute(frame, i, kernel, frame.work->ops[i].experts.move_name, action);
  tensors_.drop(x, Role::input);
  builder_.writes(moved.buffer, Role::output);
  return moved;
}

Value ExpertPass::exchange_tokens(const Frame& frame, std::size_t i, const Value& x,
                                  std::uint32_t work, std::uint32_t name, Bytes bytes) {
  Value came = tensors_.allocate(bytes);
  came.ready = emit_.tensor_collective(frame, i, work, name, Action::exchange_tokens);
  tensors_.drop(x, Role::input);
  builder_.writes(came.buffer, Role::output);
  return came;
}

// A few bytes for each choice, which the activation of its expert multiplies by.
void ExpertPass::send_weights(const Frame& frame, std::size_t i) {
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
void ExpertPass::scatter_weights(const Frame& frame, std::size_t i) {
  const ExpertWork& work = frame.work->ops[i].experts;
  if (work.scatter_weights == none) return;
  choice_gradient_ = exchange_tokens(frame, i, choice_gradient_, work.scatter_weights,
                                     work.scatter_name, frame.shape->ops[i].experts->weights_came);
}

void ExpertPass::return_weights(const Frame& frame, std::size_t i) {
  const ExpertWork& work = frame.work->ops[i].experts;
  if (work.exchange_weights == none) return;
  choice_gradient_ = exchange_tokens(frame, i, choice_gradient_, work.exchange_weights,
                                     work.exchange_name, frame.shape->ops[i].experts->weights);
}

// The kernel added last is an expert's activation, if it is one of an expert.
void ExpertPass::weigh_choices(Frame& frame, std::size_t i) {
  const ModelOp& op = *frame.shape->ops[i].op;
  if (op.experts == 0 || op.kind != ModelOpKind::elementwise) return;
  const Value weights = std::exchange(choice_weights_, {});
  if (!frame.keep) return tensors_.drop(weights, Role::choice_weights);
  tensors_.read(weights, Role::choice_weights);
  frame.saved[i].weights = weights.buffer;
}

void ExpertPass::weigh_choices_backward(const Frame& frame, std::size_t i) {
  Saved& saved = frame.saved[i];
  if (saved.weights.value == none) return;
  choice_gradient_ = tensors_.allocate(builder_.size_of(saved.weights));
  tensors_.release(saved.weights, Role::choice_weights);
  builder_.writes(choice_gradient_.buffer, Role::choice_gradient);
}

// Forward of dispatch, backward of combine. How many tokens go where the router's device knows; the
// host asks as late as it can (Megatron-LM, core/transformer/moe/token_dispatcher.py,
// cuda_sync_point "before_ep_alltoall"; padded experts need no counts).
Value ExpertPass::send_to_experts(Frame& frame, std::size_t i, const Value& x) {
  const ShardedOp& op = frame.shape->ops[i];
  const ExpertWork& work = frame.work->ops[i].experts;
  const ExpertExchange& exchange = *op.experts;
  const OpId chosen = builder_.last(Stream::compute);
  Value tokens = move_tokens(frame, i, x, work.permute, exchange.sent);
  if (op.op->kind == ModelOpKind::dispatch && runs_.waits_for_counts)
    builder_.host_waits_for(chosen);
  if (frame.pass != Pass::backward) kept_.keep_beside(frame, i, op.saved);
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
Value ExpertPass::bring_from_experts(Frame& frame, std::size_t i, const Value& x) {
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
  if (dispatch) tensors_.release(frame.saved[i].extra, Role::saved);
  return sum;
}

}  // namespace sim::lowering
