// Attention over context-parallel ranks, each of which holds sequence_length / c tokens: chunks i
// and 2c - 1 - i of 2c, so that a causal mask leaves all of them the same work.
//
// Ring (Liu et al. 2023, "Ring Attention with Blockwise Transformers"; Transformer Engine,
// pytorch/attention/dot_product_attention/context_parallel.py, AttnFuncWithCPAndKVP2P): c steps.
// Keys and values of the next step come in beside the attention of this one; its output is merged
// into that of the steps before by their log-sum-exps. Backward the ring turns the other way, from
// the slice that came last to the rank's own, and the gradient of a slice travels one step behind.
//
// All-gather (Llama 3, section 3.3.2; the same file, AttnFuncWithCPAndKVAllGather): keys and values
// are gathered before the attention, again before its backward pass, and their gradients
// reduce-scattered behind it. Nothing runs beside.
//
// PyTorch's context_parallel (torch/distributed/tensor/experimental/_attention.py of 2.6,
// _templated_ring_attention and _templated_ring_attention_backward, with load balancing) goes slice
// by slice in either: forward, slices come one by one round a ring (rotate method alltoall), or all
// are gathered beside the attention of the rank's own (allgather, the default). Backward, slices
// come the same way again, beginning with the rank's own; the gradient of a slice travels with them
// in fp32 (convert_to_f32), c times: the last time it comes home. In a compiled layer every
// exchange is waited for where it is issued: a functional collective that is traced is followed by
// its wait (torch/distributed/_functional_collectives.py, _maybe_wrap_tensor), and Inductor moves
// waits only where it is told to (reorder_for_compute_comm_overlap, off by default).
//
// All-to-all (Jacobs et al. 2023, "DeepSpeed Ulysses"; Transformer Engine 2.8 to 2.11,
// context_parallel.py, AttnFuncWithCPAndQKVOA2A and flash_attn_a2a_communicate). A rank comes with
// its tokens of all heads, attends with all tokens of its share of the heads, and goes on with its
// tokens. Queries, keys and values go one after another: each is copied rank after rank, then sent,
// while the next is copied; what came is copied into the order of the sequence. Those last copies
// run on Transformer Engine's cp_stream beside the first ones, here behind them: all of them are
// bound by the same memory, and the attention waits for all of them. The output goes back the same
// way, and in the backward pass its gradient comes and those of queries, keys and values go back.
// Kept are queries, keys and values behind the exchange, the output before it and its log-sum-exps
// (before 2.8 the output behind it, which was then exchanged again beside its gradient); the linear
// behind keeps its input besides. Scans go the same way (Megatron-LM,
// core/ssm/mamba_context_parallel.py), each part of what they read by an exchange of its own.
//
// All-to-all and ring (Fang and Zhao 2024, "USP"; the same file, AttnFuncWithCPAndKVP2P with two
// groups, cp_comm_type a2a+p2p): neighbours exchange heads, and a ring of their groups takes the
// place of the one kernel of attention.
#include <array>
#include <span>

#include "sim/plan/sharding/parts.hpp"

namespace sim {
namespace {

class ContextTapes {
 public:
  ContextTapes(const Region& region, const ShardedOp& to)
      : layout_{*region.layout},
        form_{region.model->execution.context},
        to_{to},
        context_{*to.context},
        ranks_{layout_.head_groups()},
        gathers_{layout_.context_exchange == ContextExchange::all_gather},
        both_{layout_.context_exchange == ContextExchange::all_to_all_ring} {}

  OperatorTapes tapes() const {
    OperatorTapes made;
    if (both_) {
      forward_both(made.forward);
      backward_both(made.backward);
    } else if (!context_.parts.empty()) {
      forward_heads(made.forward);
      backward_heads(made.backward);
    } else if (gathers_ && !by_slices()) {
      forward_gathered(made.forward);
      backward_gathered(made.backward);
    } else {
      made.forward.result = tape_value::output;
      made.backward.result = tape_value::input_gradient;
      forward_slices(made.forward, tape_value::input, tape_value::output);
      by_slices() ? backward_pytorch(made.backward)
                  : backward_ring(made.backward, tape_value::gradient, tape_value::input_gradient);
    }
    return made;
  }

 private:
  bool by_slices() const { return form_ != ContextForm::transformer_engine; }

  TapeStep& exchange(Tape& tape, CollectiveKind kind, Bytes bytes, Action action,
                     std::string_view suffix, DType dtype) const {
    const GroupRole group = !both_                               ? GroupRole::context
                            : kind == CollectiveKind::all_to_all ? GroupRole::context_heads
                                                                 : GroupRole::context_ring;
    TapeStep& step = tape.add(Collective{kind, group, dtype, bytes}, action, suffix);
    step.launch = {.beside = true, .awaited = form_ == ContextForm::compiled};
    return step;
  }
  TapeStep& exchange(Tape& tape, CollectiveKind kind, Bytes bytes, Action action,
                     std::string_view suffix) const {
    return exchange(tape, kind, bytes, action, suffix, layout_.activation_dtype);
  }
  TapeStep& gather(Tape& tape) const {
    return exchange(tape, CollectiveKind::all_gather, context_.slice * ranks_, Action::gather_keys,
                    ".all_gather");
  }
  TapeStep& shift(Tape& tape, Bytes bytes, Action action) const {
    return exchange(tape, CollectiveKind::ring_shift, bytes, action, ".ring_shift");
  }

  void forward_gathered(Tape& tape) const {
    const TapeValue keys = tape.tensor();
    tape.result = tape_value::output;
    gather(tape)
        .reads(tape_value::input, Role::input)
        .makes(keys, Role::output, context_.slice * ranks_);
    tape.add(*to_.forward, Action::forward, "")
        .drops(keys, Role::keys)
        .use(TapeAccess::keep_or_drop, Role::input, tape_value::input)
        .makes(tape.result, Role::output, to_.output)
        .use(TapeAccess::keep_output, Role::output, tape.result);
  }

  void backward_gathered(Tape& tape) const {
    const Bytes bytes = context_.slice * ranks_;
    const TapeValue keys = tape.tensor(), keys_gradient = tape.tensor();
    tape.result = tape_value::input_gradient;
    gather(tape).use(TapeAccess::read_kept_input).makes(keys, Role::output, bytes);
    tape.add(*to_.backward, Action::backward, "")
        .drops(tape_value::gradient, Role::gradient)
        .drops(keys, Role::keys)
        .use(TapeAccess::free_kept)
        .makes(tape.result, Role::input_gradient, to_.input)
        .makes(keys_gradient, Role::keys_gradient, bytes);
    exchange(tape, CollectiveKind::reduce_scatter, bytes, Action::scatter_keys_gradient,
             ".reduce_scatter")
        .drops(keys_gradient, Role::keys_gradient)
        .writes(tape.result, Role::output);
  }

  // Round a ring a slice is sent on once the attention of two steps before is done, whose buffer
  // then takes the next: two are under way.
  // `own`: queries, keys and values; `out`: what comes of them.
  void forward_slices(Tape& tape, TapeValue own, TapeValue out) const {
    const TapeValue log_sum_exp = tape.tensor();
    const std::array<TapeValue, 2> slices{tape.tensor(), tape.tensor()};
    const std::array<TapeValue, 2> done{tape.tensor(), tape.tensor()};
    if (gathers_)
      gather(tape).reads(own, Role::input).makes(slices[0], Role::output, context_.slice * ranks_);
    for (int step = 0; step < ranks_; ++step) {
      const bool last = step + 1 == ranks_;
      const TapeValue slice = slices[gathers_ || step % 2 == 1 ? 0 : 1];
      const TapeValue next = slices[step % 2 == 0 ? 0 : 1];
      if (!gathers_ && !last) {
        TapeStep& sent = shift(tape, context_.slice, Action::shift_keys);
        sent.launch.behind_kernels = step == 0;
        if (step >= 2) sent.use(TapeAccess::after, Role::state, done[step % 2]);
        sent.reads(step == 0 ? own : slice, Role::input).makes(next, Role::output, context_.slice);
      }
      if (step == 0)
        tape.add(*to_.forward, Action::forward, "")
            .reads(own, Role::input)
            .makes(log_sum_exp, Role::saved, to_.attention_saved)
            .makes(out, Role::output, to_.output);
      else
        attend_slice(tape, step, slice, log_sum_exp, own, out);
      tape.steps.back().use(TapeAccess::mark, Role::state, done[step % 2]);
    }
    tape.steps.back().use(TapeAccess::keep_output, Role::output, out);
  }

  // The backward pass begins with the slice that comes last; PyTorch's with the rank's own.
  void attend_slice(Tape& tape, int step, TapeValue slice, TapeValue log_sum_exp, TapeValue own,
                    TapeValue out) const {
    const bool last = step + 1 == ranks_;
    const TapeValue part = tape.tensor();
    TapeStep& attend = tape.add(context_.attend, Action::attend, ".slice");
    if (last) {
      attend.use(TapeAccess::keep_input, Role::input, own)
          .use(TapeAccess::keep_extra, Role::saved, log_sum_exp);
      if (!by_slices()) attend.use(TapeAccess::keep_keys, Role::keys, slice);
    }
    const bool all_gathered = gathers_ && !last;
    attend.use(last ? TapeAccess::drop : TapeAccess::read, Role::input, own)
        .use(all_gathered ? TapeAccess::read : TapeAccess::drop, Role::keys, slice)
        .makes(part, Role::output, to_.output + to_.attention_saved);
    TapeStep& merge =
        tape.add(step == 1 ? context_.first_merge : context_.merge, Action::merge_outputs, ".merge")
            .drops(part, Role::input)
            .writes(out, Role::output)
            .writes(log_sum_exp, Role::saved);
    if (last) merge.drops(log_sum_exp, Role::saved);
  }

  // Step by step: the slice goes on, and with it the gradient that the step before has added to;
  // beside them the attention; then what it gives is added to the gradient that has come.
  void backward_ring(Tape& tape, TapeValue gradient, TapeValue out) const {
    const std::array<TapeValue, 2> slices{tape.tensor(), tape.tensor()};
    const TapeValue keys_gradient = tape.tensor();
    for (int step = 0; step < ranks_; ++step) {
      const bool last = step + 1 == ranks_;
      const TapeValue slice = slices[step % 2], next = slices[(step + 1) % 2];
      TapeStep& sent = shift(tape, context_.slice * (!last && step > 0 ? 2 : 1),
                             step > 0 ? Action::shift_gradients : Action::shift_keys);
      if (step == 0) sent.use(TapeAccess::take_keys, Role::keys, slice);
      if (!last) sent.reads(slice, Role::input).makes(next, Role::output, context_.slice);
      if (step > 0)
        sent.drops(keys_gradient, Role::keys_gradient)
            .makes(keys_gradient, Role::input_gradient, context_.slice);
      const TapeValue part = attend_backward(tape, last ? *to_.backward : context_.attend_backward,
                                             last ? "" : ".slice",
                                             {TapeAccess::drop, Role::keys, slice}, last, gradient);
      merge_gradients(tape, {part, keys_gradient, out}, step == 0, last);
    }
  }

  TapeValue attend_backward(Tape& tape, const Kernel& kernel, std::string_view suffix,
                            const TapeUse& slice, bool last, TapeValue gradient) const {
    const TapeValue part = tape.tensor();
    TapeStep& attend = tape.add(kernel, Action::attend_backward, suffix)
                           .use(slice.access, slice.role, slice.value);
    if (last)
      attend.drops(gradient, Role::gradient).use(TapeAccess::free_kept);
    else
      read_kept(attend.reads(gradient, Role::gradient));
    attend.makes(part, Role::output, to_.input);
    return part;
  }

  static void read_kept(TapeStep& step) {
    step.use(TapeAccess::read_kept_input)
        .use(TapeAccess::read_kept_extra)
        .use(TapeAccess::read_kept_output);
  }

  struct Gradients {
    TapeValue part, keys, out;  // of a slice, added to those of keys and values, and to the result
  };
  void merge_gradients(Tape& tape, const Gradients& of, bool first, bool last) const {
    TapeStep& merge = tape.add(first ? context_.begin_gradients : context_.add_gradients,
                               Action::merge_gradients, ".merge")
                          .drops(of.part, Role::input);
    if (first)
      merge.makes(of.out, Role::input_gradient, to_.input)
          .makes(of.keys, Role::keys_gradient, context_.gradient_slice);
    else
      merge.writes(of.out, Role::input_gradient)
          .use(last ? TapeAccess::drop : TapeAccess::write, Role::keys_gradient, of.keys);
  }

  void backward_pytorch(Tape& tape) const {
    tape.result = tape_value::input_gradient;
    const std::array<TapeValue, 2> slices{tape.tensor(), tape.tensor()};
    const TapeValue sum = tape.tensor();
    for (int step = 0; step < ranks_; ++step) {
      const bool last = step + 1 == ranks_;
      const TapeValue slice = slices[gathers_ || step % 2 == 1 ? 0 : 1];
      if (gathers_ ? step == 0 : !last)
        next_slice(tape, step, slice, slices[step % 2 == 0 ? 0 : 1]);
      TapeValue part;
      if (step == 0) {
        part = tape.tensor();
        TapeStep& own = tape.add(*to_.backward, Action::backward, "");
        read_kept(own.reads(tape_value::gradient, Role::gradient));
        own.makes(part, Role::input_gradient, to_.input);
      } else {
        const bool kept = gathers_ && !last;
        part = attend_backward(tape, context_.attend_backward, ".slice",
                               {kept ? TapeAccess::read : TapeAccess::drop, Role::keys, slice},
                               last, tape_value::gradient);
      }
      merge_gradients(tape, {part, sum, tape.result}, step == 0, false);
      send_gradients(tape, sum, last);
    }
  }

  // All of them at once, or what the rank before has had: the rank's own is the first to go.
  void next_slice(Tape& tape, int step, TapeValue slice, TapeValue next) const {
    TapeStep& sent = gathers_ ? gather(tape) : shift(tape, context_.slice, Action::shift_keys);
    if (gathers_ || step == 0)
      sent.use(TapeAccess::read_kept_input);
    else
      sent.reads(slice, Role::input);
    sent.makes(next, Role::output, context_.slice * (gathers_ ? ranks_ : 1));
  }

  // To the rank behind, which adds to it; at last home, into the gradient of keys and values.
  void send_gradients(Tape& tape, TapeValue sum, bool home) const {
    TapeStep& sent = exchange(tape, CollectiveKind::ring_shift, context_.gradient_slice,
                              Action::shift_gradients, ".ring_shift", DType::fp32)
                         .drops(sum, Role::keys_gradient);
    if (home)
      sent.writes(tape.result, Role::input_gradient);
    else
      sent.makes(sum, Role::input_gradient, context_.gradient_slice);
  }

  void exchange_heads(Tape& tape, TapeValue tensor, TapeValue out,
                      std::span<const ContextAttention::Heads> parts) const {
    std::vector<TapeValue> came;
    Bytes all{};
    for (const ContextAttention::Heads& part : parts) {
      const bool last = &part == &parts.back();
      const TapeValue sent = tape.tensor();
      came.push_back(tape.tensor());
      all += part.bytes;
      tape.add(part.order, Action::order_for_exchange, ".order")
          .use(last ? TapeAccess::drop : TapeAccess::read, Role::input, tensor)
          .makes(sent, Role::output, part.bytes);
      TapeStep& exchanged = exchange(tape, CollectiveKind::all_to_all, part.bytes,
                                     Action::exchange_heads, ".all_to_all");
      exchanged.launch.awaited = false;
      exchanged.drops(sent, Role::input).makes(came.back(), Role::output, part.bytes);
    }
    for (std::size_t part = 0; part < parts.size(); ++part)
      tape.add(parts[part].behind, Action::order_behind_exchange, ".order")
          .drops(came[part], Role::input)
          .use(part == 0 ? TapeAccess::make : TapeAccess::write, Role::output, out, all);
  }

  void forward_heads(Tape& tape) const {
    const TapeValue heads = tape.tensor(), own = tape.tensor();
    tape.result = tape_value::output;
    exchange_heads(tape, tape_value::input, heads, context_.parts);
    tape.add(*to_.forward, Action::forward, "")
        .use(TapeAccess::keep_or_drop, Role::input, heads)
        .makes(own, Role::output, to_.output)
        .use(TapeAccess::keep_output, Role::output, own);
    exchange_heads(tape, own, tape.result, std::span{&context_.made, 1});
  }

  void backward_heads(Tape& tape) const {
    const TapeValue heads = tape.tensor(), made = tape.tensor();
    tape.result = tape_value::input_gradient;
    exchange_heads(tape, tape_value::gradient, heads, std::span{&context_.made, 1});
    tape.add(*to_.backward, Action::backward, "")
        .drops(heads, Role::gradient)
        .use(TapeAccess::free_kept)
        .makes(made, Role::input_gradient, to_.input);
    exchange_heads(tape, made, tape.result, context_.parts);
  }

  void forward_both(Tape& tape) const {
    const TapeValue heads = tape.tensor(), own = tape.tensor();
    tape.result = tape_value::output;
    exchange_heads(tape, tape_value::input, heads, context_.parts);
    forward_slices(tape, heads, own);
    exchange_heads(tape, own, tape.result, std::span{&context_.made, 1});
  }

  void backward_both(Tape& tape) const {
    const TapeValue heads = tape.tensor(), made = tape.tensor();
    tape.result = tape_value::input_gradient;
    exchange_heads(tape, tape_value::gradient, heads, std::span{&context_.made, 1});
    backward_ring(tape, heads, made);
    exchange_heads(tape, made, tape.result, context_.parts);
  }

  const Layout& layout_;
  ContextForm form_;
  const ShardedOp& to_;
  const ContextAttention& context_;
  int ranks_;  // round which slices go
  bool gathers_, both_;
};

}  // namespace

void shard_context(const Region& region, ShardedOp& to) {
  to.whole = ContextTapes{region, to}.tapes();
}

}  // namespace sim
