// Attention over context-parallel ranks by all-to-all (Jacobs et al. 2023, "DeepSpeed Ulysses";
// Transformer Engine 2.8 to 2.11, pytorch/attention/dot_product_attention/context_parallel.py,
// AttnFuncWithCPAndQKVOA2A and flash_attn_a2a_communicate). A rank comes with its tokens of all
// heads, attends with all tokens of its share of the heads, and goes on with its tokens.
//
// Queries, keys and values go one after another: each is copied rank after rank, then sent, while
// the next is copied; what came is copied into the order of the sequence. Those last copies run on
// Transformer Engine's cp_stream beside the first ones, here behind them: all of them are bound by
// the same memory, and the attention waits for all of them. The output goes back the same way, and
// in the backward pass its gradient comes and those of queries, keys and values go back.
//
// Kept are queries, keys and values behind the exchange, the output before it and its log-sum-exps
// (before 2.8 the output behind it, which was then exchanged again beside its gradient); the linear
// behind keeps its input besides.
//
// Scans go the same way (Megatron-LM, core/ssm/mamba_context_parallel.py), each part of what they
// read by an exchange of its own.
#include "sim/plan/lowering/context_heads.hpp"

namespace sim::lowering {

void HeadExchange::intern_heads(const ShardedOp& op, ContextWork& work) {
  const ContextAttention& context = *op.context;
  const std::string& name = op.op->name;
  work.exchange_name = builder_.name(name + ".all_to_all");
  work.order_name = builder_.name(name + ".order");
  const auto intern = [&](const ContextAttention::Heads& heads) {
    return ContextWork::Heads{
        .order = builder_.kernel(heads.order),
        .behind = builder_.kernel(heads.behind),
        .exchange = builder_.collective({CollectiveKind::all_to_all, GroupRole::context,
                                         layout_.activation_dtype, heads.bytes}),
        .bytes = heads.bytes};
  };
  for (const ContextAttention::Heads& part : context.parts)
    work.parts.push_back(intern(part));
  work.made = intern(context.made);
}

Value HeadExchange::exchange_heads(const Frame& frame, std::size_t i, const Value& tensor,
                                   std::span<const ContextWork::Heads> parts) {
  const ContextWork& work = frame.work->ops[i].context;
  std::vector<Value> came(parts.size());
  Bytes all{};
  for (std::size_t part = 0; part < parts.size(); ++part) {
    const auto& [order, behind, all_to_all, bytes] = parts[part];
    all += bytes;
    const Value sent = tensors_.allocate(bytes);
    emit_.compute(frame, i, order, work.order_name, Action::order_for_exchange);
    if (part + 1 < parts.size()) {
      tensors_.read(tensor, Role::input);
    } else {
      tensors_.drop(tensor, Role::input);
    }
    builder_.writes(sent.buffer, Role::output);
    builder_.wait_for_stream(Stream::context_comm, Stream::compute);
    came[part] = tensors_.allocate(bytes);
    came[part].ready = steps_.exchange(frame, i, all_to_all, Action::exchange_heads);
    tensors_.drop(sent, Role::input);
    builder_.writes(came[part].buffer, Role::output);
  }
  Value out = tensors_.allocate(all);
  for (std::size_t part = 0; part < parts.size(); ++part) {
    tensors_.wait_for(came[part]);
    out.ready =
        emit_.compute(frame, i, parts[part].behind, work.order_name, Action::order_behind_exchange);
    tensors_.drop(came[part], Role::input);
    builder_.writes(out.buffer, Role::output);
  }
  return out;
}

Value HeadExchange::forward_heads(Frame& frame, std::size_t i, Value x) {
  const OpWork& work = frame.work->ops[i];
  const Value heads = exchange_heads(frame, i, x, work.context.parts);
  const Value own = tensors_.allocate(frame.shape->ops[i].output);
  emit_.compute(frame, i, work.forward, work.name, Action::forward);
  kept_.keep_or_free(frame, i, heads);
  builder_.writes(own.buffer, Role::output);
  kept_.keep_output(frame, i, own);
  return exchange_heads(frame, i, own, std::span{&work.context.made, 1});
}

Value HeadExchange::backward_heads(Frame& frame, std::size_t i, Value gradient) {
  const OpWork& work = frame.work->ops[i];
  const Value heads = exchange_heads(frame, i, gradient, std::span{&work.context.made, 1});
  const Value made = tensors_.allocate(frame.shape->ops[i].input);
  emit_.compute(frame, i, work.backward, work.name, Action::backward);
  tensors_.drop(heads, Role::gradient);
  kept_.free_saved(frame.saved[i]);
  builder_.writes(made.buffer, Role::input_gradient);
  return exchange_heads(frame, i, made, work.context.parts);
}

}  // namespace sim::lowering
