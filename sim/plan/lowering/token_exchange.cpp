// Tokens on their way to experts and back (Megatron-LM, core/transformer/moe/token_dispatcher.py).
// alltoall: copied once for each choice, sent to the ranks of the experts, gathered by those that
// share an expert's features, and sorted; behind the experts they go the same way back. The weights
// of the choices go with the tokens, in an exchange of their own, and their gradients come back.
// allgather: all tokens and choices are gathered, then those of the rank's experts are copied.
// deepep, hybridep: a kernel sends tokens with their weights, which are copied where they come.
//
// Each way has three steps: what comes before the exchange, the exchange, what comes behind it.
#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "sim/plan/lowering/experts.hpp"
#include "sim/plan/sharding/eight_bit.hpp"

namespace sim::lowering {

void ExpertPass::intern_experts(const ShardedOp& op, ExpertWork& work) {
  const std::string& name = op.op->name;
  if (op.choose) {
    work.choose_name = builder_.name(name + ".choose");
    work.choose = builder_.kernel(*op.choose);
    work.choose_backward = builder_.kernel(*op.choose_backward);
    return;
  }
  const ExpertExchange& exchange = op.exchanged();
  work.move_name = builder_.name(name + ".permute");
  work.permute = builder_.kernel(exchange.permute);
  work.unpermute = builder_.kernel(exchange.unpermute);
  if (exchange.sort) work.sort = builder_.kernel(*exchange.sort);
  const DType dtype = layout_.activation_dtype;
  if (layout_.recompute == Recompute::operators)
    work.kept = context_.memory_pass(0, OpKind::elementwise, dtype);
  if (weighs_at_origin(runs_, layout_)) return intern_titan(op, work);
  if (layout_.token_dispatcher == TokenDispatcher::allgather) return intern_gather(op, work);
  if (is_fused(layout_.token_dispatcher)) return intern_fused(op, work);
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

// token_dispatcher.py, MoEAllGatherTokenDispatcher: choices and tokens are gathered, sums
// scattered. Automodel reduces all of them instead, those of experts in fp32 (components/moe/
// experts.py, GroupedExperts.forward and _AllGatherConcatVarlenFn.backward).
void ExpertPass::intern_gather(const ShardedOp& op, ExpertWork& work) {
  if (layout_.expert_parallel == 1) return;
  const ExpertExchange& exchange = op.exchanged();
  const bool dispatch = op.op->kind == ModelOpKind::dispatch;
  const auto make = [&](CollectiveKind kind, DType dtype, Bytes bytes) {
    return builder_.collective({kind, GroupRole::expert, dtype, bytes});
  };
  constexpr CollectiveKind there = CollectiveKind::all_gather;
  const bool whole = is_of_automodel(runs_.experts);
  const CollectiveKind back = whole ? CollectiveKind::all_reduce : CollectiveKind::reduce_scatter;
  const DType wire = whole && !dispatch ? DType::fp32 : layout_.activation_dtype;
  work.exchange_name = builder_.name(op.op->name + ".all_gather");
  work.exchange_back_name =
      builder_.name(op.op->name + (whole ? ".all_reduce" : ".reduce_scatter"));
  work.exchange = make(there, layout_.activation_dtype, exchange.whole);
  work.exchange_back =
      make(back, wire, exchange.whole * (bytes_of(wire) / bytes_of(layout_.activation_dtype)));
  if (!dispatch) return;
  work.exchange_weights = make(there, DType::fp32, exchange.weights_gathered);
  work.exchange_weights_back = make(back, DType::fp32, exchange.weights_gathered);
}

// torchtitan (v0.2.2, 73a0e697): distributed/expert_parallel.py, ExpertParallel: counts first, then
// tokens. Ranks that share the features of experts have the tokens of all of them from the input of
// the layer on, and add up what they make behind it (models/llama4/infra/parallelize.py,
// PrepareModuleInputOutput).
void ExpertPass::intern_titan(const ShardedOp& op, ExpertWork& work) {
  const ExpertExchange& exchange = *op.experts;
  const std::string& name = op.op->name;
  const DType dtype = layout_.activation_dtype;
  const auto make = [&](CollectiveKind kind, GroupRole role, DType of, Bytes bytes) {
    return builder_.collective({kind, role, of, bytes});
  };
  if (layout_.expert_parallel > 1) {
    work.exchange_name = builder_.name(name + ".all_to_all");
    work.exchange = make(CollectiveKind::all_to_all, GroupRole::expert, dtype, exchange.came);
    work.counts_name = builder_.name(name + ".counts");
    if (op.op->kind == ModelOpKind::dispatch)
      work.exchange_counts =
          make(CollectiveKind::all_to_all, GroupRole::expert, DType::fp32, exchange.counts);
  }
  if (layout_.expert_tensor() == 1) return;
  work.gather_name = builder_.name(name + ".all_gather");
  work.scatter_name = builder_.name(name + ".reduce_scatter");
  work.gather = make(CollectiveKind::all_gather, GroupRole::expert_tensor, dtype, exchange.whole);
  work.scatter =
      make(CollectiveKind::reduce_scatter, GroupRole::expert_tensor, dtype, exchange.whole);
}

// fused_a2a.py, FusedDispatch and FusedCombine: each is the other's backward pass.
void ExpertPass::intern_fused(const ShardedOp& op, ExpertWork& work) {
  const bool dispatch = op.op->kind == ModelOpKind::dispatch;
  const bool hybrid = layout_.token_dispatcher == TokenDispatcher::hybridep;
  const std::string kernel = fmt::format(".{}", word(layout_.token_dispatcher));
  work.exchange_name = work.exchange_back_name = builder_.name(op.op->name + kernel);
  Collective tokens{.kind = CollectiveKind::all_to_all,
                    .group = GroupRole::expert,
                    .dtype = layout_.activation_dtype,
                    .bytes = dispatch ? op.input : op.output,
                    .carrier = hybrid ? Carrier::hybridep : Carrier::deepep,
                    .blocks = layout_.sms_of_dispatch(),
                    .routing = op.exchanged().routing};
  work.exchange_back = builder_.collective(tokens);
  if (layout_.eight_bit_dispatch) {
    tokens.bytes = Bytes{std::llround(static_cast<double>(tokens.bytes.count()) *
                                      dispatched_element / bytes_of(layout_.activation_dtype))};
    tokens.dtype = DType::fp8;
  }
  work.exchange = builder_.collective(tokens);
  if (!hybrid || !dispatch) return;
  work.gather_name = builder_.name(op.op->name + ".all_gather");
  work.gather_map = builder_.collective(
      {CollectiveKind::all_gather, GroupRole::expert, DType::fp8, op.exchanged().map_gathered});
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

// Kernels wait for an exchange, which waits for all kernels before it. Beside compute it waits for
// its tokens alone (core/pipeline_parallel/utils.py, ScheduleNode: an event of each micro-batch).
OpId ExpertPass::issue(const Frame& frame, std::size_t i, std::uint32_t work, std::uint32_t name,
                       const Value& x) {
  if (!runs_beside()) {
    if (x.ready.value != none) builder_.wait(Stream::tensor_comm, x.ready);
    return emit_.tensor_collective(frame, i, work, name, Action::exchange_tokens);
  }
  if (x.ready.value == none)
    builder_.wait_for_stream(Stream::context_comm, Stream::compute);
  else
    builder_.wait(Stream::context_comm, x.ready);
  OpLabel label = frame.label;
  label.name = name;
  return builder_.add_collective(work, Stream::context_comm, frame.pass, label,
                                 {Action::exchange_tokens, site(frame, i)});
}

bool ExpertPass::runs_beside() const {
  return layout_.overlap_expert_exchange || layout_.overlap_shared_experts;
}

Value ExpertPass::exchange_tokens(const Frame& frame, std::size_t i, const Value& x,
                                  std::uint32_t work, std::uint32_t name, Bytes bytes) {
  // Recomputation by operators keeps what exchanges of tokens have brought.
  const ExpertWork& own = frame.work->ops[i].experts;
  const bool kept = work == own.exchange || work == own.scatter;
  if (kept && has_kept_exchanges(frame)) return move_tokens(frame, i, x, own.kept, bytes);
  Value came = tensors_.allocate(bytes);
  came.ready = issue(frame, i, work, name, x);
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

// Forward of dispatch, backward of combine. How many tokens go where the router's device knows; the
// host asks as late as it can (Megatron-LM, core/transformer/moe/token_dispatcher.py,
// cuda_sync_point "before_ep_alltoall"; fused_a2a.py, before the dispatch; padded experts need no
// counts).
Value ExpertPass::send_to_experts(Frame& frame, std::size_t i, const Value& x) {
  return arrive_at_experts(frame, i, exchange_to_experts(frame, i, leave_for_experts(frame, i, x)));
}

bool ExpertPass::has_kept_exchanges(const Frame& frame) const {
  return frame.pass == Pass::recompute && layout_.recompute == Recompute::operators;
}

void ExpertPass::wait_for_counts(const Frame& frame, std::size_t i, OpId known) {
  if (has_kept_exchanges(frame)) return;
  const bool asks = frame.shape->ops[i].op->kind == ModelOpKind::dispatch &&
                    runs_.waits_for_counts && !layout_.pad_to_capacity;
  if (asks) builder_.host_waits_for(known);
}

Value ExpertPass::leave_for_experts(Frame& frame, std::size_t i, const Value& x) {
  const ShardedOp& op = frame.shape->ops[i];
  if (op.op->kind == ModelOpKind::dispatch) chosen_ = builder_.last(Stream::compute);
  if (layout_.token_dispatcher != TokenDispatcher::alltoall) return x;
  const ExpertWork& work = frame.work->ops[i].experts;
  const bool titan = weighs_at_origin(runs_, layout_);
  const Value all =
      titan && work.gather != none
          ? exchange_tokens(frame, i, x, work.gather, work.gather_name, op.experts->whole)
          : x;
  const Value tokens = move_tokens(frame, i, all, work.permute, op.experts->sent);
  if (frame.pass != Pass::backward) kept_.keep_beside(frame, i, op.saved);
  if (titan && op.op->kind == ModelOpKind::combine) gradient_of_weights(frame, i);
  return tokens;
}

// ExpertForm::torchtitan: what came back is multiplied by the weights of its choices. Backward of
// combine, by the kernel added last.
void ExpertPass::gradient_of_weights(const Frame& frame, std::size_t i) {
  Saved& saved = frame.saved[i];
  tensors_.release(saved.extra, Role::saved);
  choice_gradient_ = tensors_.allocate(builder_.size_of(saved.weights));
  choice_gradient_.ready = builder_.last(Stream::compute);
  tensors_.release(saved.weights, Role::choice_weights);
  builder_.writes(choice_gradient_.buffer, Role::choice_gradient);
}

// Forward of combine, by the kernel added last.
void ExpertPass::weigh_what_came(Frame& frame, std::size_t i) {
  kept_.keep_beside(frame, i, frame.shape->ops[i].saved);
  const Value weights = std::exchange(choice_weights_, {});
  if (!frame.keep) return tensors_.drop(weights, Role::choice_weights);
  tensors_.read(weights, Role::choice_weights);
  frame.saved[i].weights = weights.buffer;
}

// A number for each expert, before the tokens; the host waits for it. It was kept where tokens
// were.
Value ExpertPass::exchange_counts(const Frame& frame, std::size_t i) {
  const ExpertWork& work = frame.work->ops[i].experts;
  if (work.exchange_counts == none || frame.pass == Pass::backward || has_kept_exchanges(frame))
    return {};
  const Bytes bytes = frame.shape->ops[i].experts->counts;
  Value came = tensors_.allocate(bytes);
  came.ready = issue(frame, i, work.exchange_counts, work.counts_name, choice_weights_);
  tensors_.read(choice_weights_, Role::input);  // the counts were made with them
  builder_.writes(came.buffer, Role::output);
  wait_for_counts(frame, i, came.ready);
  return came;
}

Value ExpertPass::exchange_to_experts(const Frame& frame, std::size_t i, const Value& x) {
  const ShardedOp& op = frame.shape->ops[i];
  const ExpertWork& work = frame.work->ops[i].experts;
  const ExpertExchange& exchange = *op.experts;
  const bool dispatch = op.op->kind == ModelOpKind::dispatch;
  if (is_fused(layout_.token_dispatcher)) {
    const Value map = gather_map(frame, i);
    wait_for_counts(frame, i, map.exists() ? map.ready : chosen_);
    const Value came = exchange_fused(frame, i, work.exchange, x, exchange.whole,
                                      dispatch ? &choice_weights_ : nullptr, Role::choice_weights,
                                      exchange.weights_gathered);
    tensors_.drop(map, Role::saved);
    return came;
  }
  if (weighs_at_origin(runs_, layout_)) {
    if (work.exchange == none) return x;
    const Value counts = exchange_counts(frame, i);
    const Value came =
        exchange_tokens(frame, i, x, work.exchange, work.exchange_name, exchange.came);
    tensors_.drop(counts, Role::saved);
    return came;
  }
  if (layout_.token_dispatcher == TokenDispatcher::alltoall) wait_for_counts(frame, i, chosen_);
  Value tokens = x;
  if (layout_.token_dispatcher == TokenDispatcher::allgather) {
    if (dispatch && work.exchange_weights != none)
      choice_weights_ = exchange_tokens(frame, i, choice_weights_, work.exchange_weights,
                                        work.exchange_name, exchange.weights_gathered);
    if (work.exchange != none)
      tokens = exchange_tokens(frame, i, tokens, work.exchange, work.exchange_name, exchange.whole);
    return tokens;
  }
  if (dispatch) send_weights(frame, i);
  if (work.exchange != none)
    tokens = exchange_tokens(frame, i, tokens, work.exchange, work.exchange_name, exchange.came);
  if (work.gather != none)
    tokens = exchange_tokens(frame, i, tokens, work.gather, work.gather_name, exchange.gathered);
  return tokens;
}

Value ExpertPass::arrive_at_experts(Frame& frame, std::size_t i, const Value& x) {
  const ShardedOp& op = frame.shape->ops[i];
  const ExpertWork& work = frame.work->ops[i].experts;
  const ExpertExchange& exchange = *op.experts;
  if (layout_.token_dispatcher == TokenDispatcher::alltoall)
    return work.sort == none
               ? x
               : move_tokens(frame, i, x, work.sort, exchange.gathered, Action::sort_tokens);
  const bool dispatch = op.op->kind == ModelOpKind::dispatch;
  if (layout_.token_dispatcher == TokenDispatcher::allgather)
    wait_for_counts(frame, i, work.exchange == none ? chosen_ : x.ready);
  const Value tokens = move_tokens(frame, i, x, work.permute, exchange.came);
  if (frame.pass != Pass::backward) kept_.keep_beside(frame, i, op.saved);
  if (dispatch) move_weights(choice_weights_, Role::choice_weights, exchange.weights_came);
  return tokens;
}

// HybridEP: from the choices of all ranks each works out where its tokens lie at the others. The
// backward pass knows it.
Value ExpertPass::gather_map(const Frame& frame, std::size_t i) {
  const ExpertWork& work = frame.work->ops[i].experts;
  if (work.gather_map == none || frame.pass == Pass::backward || has_kept_exchanges(frame))
    return {};
  Value map = tensors_.allocate(frame.shape->ops[i].experts->map_gathered);
  map.ready = issue(frame, i, work.gather_map, work.gather_name, choice_weights_);
  tensors_.read(choice_weights_, Role::input);
  builder_.writes(map.buffer, Role::output);
  return map;
}

// By the kernel added last.
void ExpertPass::move_weights(Value& weights, Role role, Bytes bytes) {
  tensors_.drop(weights, Role::residual);
  const OpId ready = builder_.last(Stream::compute);
  weights = tensors_.allocate(bytes);
  weights.ready = ready;
  builder_.writes(weights.buffer, role);
}

Value ExpertPass::exchange_fused(const Frame& frame, std::size_t i, std::uint32_t exchange,
                                 const Value& x, Bytes bytes, Value* weights, Role role,
                                 Bytes weight_bytes) {
  const ExpertWork& work = frame.work->ops[i].experts;
  if (weights != nullptr && weights->ready.value != none && runs_beside())
    builder_.wait(Stream::context_comm, weights->ready);
  const Value came = exchange_tokens(frame, i, x, exchange, work.exchange_name, bytes);
  if (weights == nullptr) return came;
  tensors_.drop(*weights, Role::residual);
  *weights = tensors_.allocate(weight_bytes);
  weights->ready = came.ready;
  builder_.writes(weights->buffer, role);
  return came;
}

// Forward of combine, backward of dispatch.
Value ExpertPass::bring_from_experts(Frame& frame, std::size_t i, const Value& x) {
  return arrive_from_experts(frame, i, exchange_from_experts(frame, i, leave_experts(frame, i, x)));
}

Value ExpertPass::leave_experts(Frame& frame, std::size_t i, const Value& x) {
  const ExpertWork& work = frame.work->ops[i].experts;
  const ExpertExchange& exchange = *frame.shape->ops[i].experts;
  if (layout_.token_dispatcher == TokenDispatcher::alltoall)
    return work.sort == none
               ? x
               : move_tokens(frame, i, x, work.sort, exchange.gathered, Action::sort_tokens);
  const Value tokens = move_tokens(frame, i, x, work.unpermute, exchange.whole);
  if (frame.shape->ops[i].op->kind != ModelOpKind::dispatch) return tokens;
  move_weights(choice_gradient_, Role::choice_gradient, exchange.weights_gathered);
  tensors_.release(frame.saved[i].extra, Role::saved);
  return tokens;
}

Value ExpertPass::exchange_from_experts(const Frame& frame, std::size_t i, const Value& x) {
  const ShardedOp& op = frame.shape->ops[i];
  const ExpertWork& work = frame.work->ops[i].experts;
  const ExpertExchange& exchange = *op.experts;
  const bool dispatch = op.op->kind == ModelOpKind::dispatch;
  const Bytes own = dispatch ? op.input : op.output;
  if (is_fused(layout_.token_dispatcher))
    return exchange_fused(frame, i, work.exchange_back, x, own,
                          dispatch ? &choice_gradient_ : nullptr, Role::choice_gradient,
                          exchange.weights);
  Value tokens = x;
  if (weighs_at_origin(runs_, layout_))
    return work.exchange == none
               ? x
               : exchange_tokens(frame, i, x, work.exchange, work.exchange_name, exchange.sent);
  if (layout_.token_dispatcher == TokenDispatcher::allgather) {
    if (work.exchange_back != none)
      tokens = exchange_tokens(frame, i, tokens, work.exchange_back, work.exchange_back_name, own);
    if (dispatch && work.exchange_weights_back != none)
      choice_gradient_ = exchange_tokens(frame, i, choice_gradient_, work.exchange_weights_back,
                                         work.exchange_back_name, exchange.weights);
    return tokens;
  }
  if (work.scatter != none)
    tokens = exchange_tokens(frame, i, tokens, work.scatter, work.scatter_name, exchange.came);
  if (dispatch) scatter_weights(frame, i);
  if (work.exchange != none)
    tokens = exchange_tokens(frame, i, tokens, work.exchange, work.exchange_name, exchange.sent);
  if (dispatch) return_weights(frame, i);
  return tokens;
}

Value ExpertPass::arrive_from_experts(Frame& frame, std::size_t i, const Value& x) {
  if (layout_.token_dispatcher != TokenDispatcher::alltoall) return x;
  const ShardedOp& op = frame.shape->ops[i];
  const bool dispatch = op.op->kind == ModelOpKind::dispatch;
  const ExpertWork& work = frame.work->ops[i].experts;
  const Bytes own = dispatch ? op.input : op.output;
  const bool titan = weighs_at_origin(runs_, layout_);
  const bool scatters = titan && work.scatter != none;
  const Value sum = move_tokens(frame, i, x, work.unpermute, scatters ? op.experts->whole : own);
  if (dispatch) tensors_.release(frame.saved[i].extra, Role::saved);
  if (titan && !dispatch) weigh_what_came(frame, i);
  if (!scatters) return sum;
  return exchange_tokens(frame, i, sum, work.scatter, work.scatter_name, own);
}

}  // namespace sim::lowering
