// Tokens on their way to experts and back (Megatron-LM, core/transformer/moe/token_dispatcher.py).
// alltoall: copied once for each choice, sent to the ranks of the experts, gathered by those that
// share an expert's features, and sorted; behind the experts they go the same way back. The weights
// of the choices go with the tokens, in an exchange of their own, and their gradients come back.
// allgather: all tokens and choices are gathered, then those of the rank's experts are copied
// (MoEAllGatherTokenDispatcher). Automodel reduces all of them instead of scattering sums, those of
// experts in fp32 (components/moe/experts.py, GroupedExperts.forward and
// _AllGatherConcatVarlenFn.backward).
// deepep, hybridep: a kernel sends tokens with their weights, which are copied where they come
// (fused_a2a.py, FusedDispatch and FusedCombine: each is the other's backward pass).
// torchtitan (v0.2.2, 73a0e697, distributed/expert_parallel.py, ExpertParallel): counts first, then
// tokens. Ranks that share the features of experts have the tokens of all of them from the input of
// the layer on, and add up what they make behind it (models/llama4/infra/parallelize.py,
// PrepareModuleInputOutput). What came back is multiplied by the weights of its choices.
//
// How many tokens go where the router's device knows; the host asks as late as it can
// (token_dispatcher.py, cuda_sync_point "before_ep_alltoall"; fused_a2a.py, before the dispatch;
// padded experts need no counts).
#include <fmt/format.h>

#include <cmath>

#include "sim/plan/sharding/eight_bit.hpp"
#include "sim/plan/sharding/parts.hpp"

namespace sim {
namespace {

using namespace tape_value;

class WayWriter {
 public:
  WayWriter(const Region& region, const ShardedOp& to, bool again)
      : layout_{*region.layout},
        runs_{region.model->execution},
        to_{to},
        held_{*to.experts},
        sent_{to.exchanged()},
        again_{again},
        dispatch_{to.op->kind == ModelOpKind::dispatch},
        at_origin_{weighs_at_origin(runs_, layout_)} {}

  TokenWays ways() const {
    TokenWays ways;
    leave_to(ways.to.leave);
    exchange_to(ways.to.exchange);
    arrive_at(ways.to.arrive);
    leave_from(ways.from.leave);
    exchange_from(ways.from.exchange);
    arrive_from(ways.from.arrive);
    return ways;
  }

 private:
  bool is(TokenDispatcher dispatcher) const { return layout_.token_dispatcher == dispatcher; }
  bool fused() const { return is_fused(layout_.token_dispatcher); }
  Bytes own() const { return dispatch_ ? to_.input : to_.output; }

  TapeStep& move(Tape& tape, const Kernel& kernel, Bytes bytes,
                 Action action = Action::move_tokens) const {
    return tape.add(kernel, action, ".permute")
        .drops(input, Role::input)
        .makes(input, Role::output, bytes);
  }
  // By the kernel added last.
  static void move_choices(Tape& tape, Role role, Bytes bytes) {
    tape.steps.back().drops(choices, Role::residual).makes(choices, role, bytes);
  }
  TapeStep& issue(Tape& tape, const Collective& collective, const char* suffix) const {
    TapeStep& step = tape.add(collective, Action::exchange_tokens, suffix);
    const bool beside = layout_.overlap_expert_exchange || layout_.overlap_shared_experts;
    step.launch = {.beside = beside, .behind_kernels = !beside, .awaited = false};
    return step;
  }
  // Recomputation by operators keeps what exchanges of tokens have brought: a kernel without work
  // stands for one.
  TapeStep& exchange(Tape& tape, const Collective& collective, const char* suffix, Bytes bytes,
                     TapeValue value = input) const {
    const bool kept = collective == tokens() || collective == scatter();
    TapeStep& step =
        again_ && kept
            ? tape.add(Kernel{.kind = OpKind::elementwise, .dtype = layout_.activation_dtype},
                       Action::move_tokens, ".permute")
            : issue(tape, collective, suffix);
    return step.drops(value, Role::input).makes(value, Role::output, bytes);
  }
  // The host reads how many tokens come.
  void wait_for_counts(Tape& tape, TapeValue known) const {
    if (!again_ && dispatch_ && runs_.waits_for_counts && !layout_.pad_to_capacity)
      tape.behind().use(TapeAccess::host_wait, Role::state, known);
  }

  Collective over(GroupRole group, CollectiveKind kind, DType dtype, Bytes bytes) const {
    return {kind, group, dtype, bytes};
  }
  Collective over_experts(CollectiveKind kind, DType dtype, Bytes bytes) const {
    return over(GroupRole::expert, kind, dtype, bytes);
  }
  Collective all_to_all(DType dtype, Bytes bytes) const {
    return over_experts(CollectiveKind::all_to_all, dtype, bytes);
  }
  Collective fused_exchange() const {
    return {.kind = CollectiveKind::all_to_all,
            .group = GroupRole::expert,
            .dtype = layout_.activation_dtype,
            .bytes = own(),
            .carrier = is(TokenDispatcher::hybridep) ? Carrier::hybridep : Carrier::deepep,
            .blocks = layout_.sms_of_dispatch(),
            .routing = sent_.routing};
  }
  // The collective that brings the tokens to the experts.
  Collective tokens() const {
    const DType dtype = layout_.activation_dtype;
    if (at_origin_) return all_to_all(dtype, held_.came);
    if (is(TokenDispatcher::allgather))
      return over_experts(CollectiveKind::all_gather, dtype, sent_.whole);
    if (!fused()) return all_to_all(dtype, sent_.came);
    Collective exchange = fused_exchange();
    if (!layout_.eight_bit_dispatch) return exchange;
    exchange.bytes = Bytes{std::llround(static_cast<double>(exchange.bytes.count()) *
                                        dispatched_element / bytes_of(dtype))};
    exchange.dtype = DType::fp8;
    return exchange;
  }
  bool exchanges() const { return layout_.expert_parallel > 1; }
  bool shares_experts() const { return layout_.expert_tensor() > 1; }
  Collective gather() const {
    return over(GroupRole::expert_tensor, CollectiveKind::all_gather, layout_.activation_dtype,
                at_origin_ ? held_.whole : sent_.gathered);
  }
  Collective scatter() const {
    Collective scatter = gather();
    scatter.kind = CollectiveKind::reduce_scatter;
    return scatter;
  }
  // The weights of choices, or their gradients, over the ranks that share the features of experts.
  Collective choices_over_features(CollectiveKind kind) const {
    return over(GroupRole::expert_tensor, kind, DType::fp32, sent_.weights_gathered);
  }

  void leave_to(Tape& tape) const {
    if (!is(TokenDispatcher::alltoall)) return;
    if (at_origin_ && shares_experts()) exchange(tape, gather(), ".all_gather", held_.whole);
    TapeStep& copy = move(tape, sent_.permute, held_.sent);
    if (dispatch_) copy.use(TapeAccess::keep_beside);
    if (!at_origin_ || dispatch_) return;
    copy.use(TapeAccess::release_kept_extra)
        .use(TapeAccess::release_choices)
        .makes(choices, Role::choice_gradient, held_.weights);
  }

  void exchange_to(Tape& tape) const {
    if (fused()) return send_fused(tape);
    if (at_origin_) return send_counted(tape);
    if (is(TokenDispatcher::allgather)) {
      if (!exchanges()) return;
      if (dispatch_)
        exchange(tape,
                 over_experts(CollectiveKind::all_gather, DType::fp32, sent_.weights_gathered),
                 ".all_gather", held_.weights_gathered, choices);
      exchange(tape, tokens(), ".all_gather", held_.whole);
      return;
    }
    wait_for_counts(tape, chosen);
    if (dispatch_ && exchanges())
      exchange(tape, all_to_all(DType::fp32, sent_.weights), ".all_to_all", held_.weights_came,
               choices);
    if (dispatch_ && shares_experts())
      exchange(tape, choices_over_features(CollectiveKind::all_gather), ".all_gather",
               held_.weights_gathered, choices);
    if (exchanges()) exchange(tape, tokens(), ".all_to_all", held_.came);
    if (shares_experts()) exchange(tape, gather(), ".all_gather", held_.gathered);
  }

  // HybridEP: from the choices of all ranks each works out where its tokens lie at the others. The
  // backward pass knows it.
  void send_fused(Tape& tape) const {
    const bool maps = is(TokenDispatcher::hybridep) && dispatch_ && !again_;
    const TapeValue map = tape.tensor();
    if (maps)
      issue(tape, over_experts(CollectiveKind::all_gather, DType::fp8, sent_.map_gathered),
            ".all_gather")
          .reads(choices, Role::input)
          .makes(map, Role::output, held_.map_gathered);
    wait_for_counts(tape, maps ? map : chosen);
    TapeStep& sent = exchange(tape, tokens(), fused_suffix(), held_.whole);
    if (dispatch_) move_choices(tape, Role::choice_weights, held_.weights_gathered);
    if (maps) sent.drops(map, Role::saved);
  }
  const char* fused_suffix() const {
    return is(TokenDispatcher::hybridep) ? ".hybridep" : ".deepep";
  }

  // A number for each expert, before the tokens. It was kept where tokens were.
  void send_counted(Tape& tape) const {
    if (!exchanges()) return;
    const bool counts = dispatch_ && !again_;
    const TapeValue came = tape.tensor();
    if (counts) {
      issue(tape, all_to_all(DType::fp32, held_.counts), ".counts")
          .reads(choices, Role::input)  // the counts were made with them
          .makes(came, Role::output, held_.counts);
      wait_for_counts(tape, came);
    }
    TapeStep& sent = exchange(tape, tokens(), ".all_to_all", held_.came);
    if (counts) sent.drops(came, Role::saved);
  }

  void sort(Tape& tape) const {
    if (sent_.sort) move(tape, *sent_.sort, held_.gathered, Action::sort_tokens);
  }

  void arrive_at(Tape& tape) const {
    if (is(TokenDispatcher::alltoall)) return sort(tape);
    if (is(TokenDispatcher::allgather)) wait_for_counts(tape, exchanges() ? input : chosen);
    TapeStep& copy = move(tape, sent_.permute, held_.came);
    if (!dispatch_) return;
    copy.use(TapeAccess::keep_beside);
    move_choices(tape, Role::choice_weights, held_.weights_came);
  }

  void leave_from(Tape& tape) const {
    if (is(TokenDispatcher::alltoall)) return sort(tape);
    TapeStep& sum = move(tape, sent_.unpermute, held_.whole);
    if (!dispatch_) return;
    move_choices(tape, Role::choice_gradient, held_.weights_gathered);
    sum.use(TapeAccess::release_kept_extra);
  }

  void exchange_from(Tape& tape) const {
    if (fused()) {
      exchange(tape, fused_exchange(), fused_suffix(), own());
      if (dispatch_) move_choices(tape, Role::choice_gradient, held_.weights);
      return;
    }
    if (is(TokenDispatcher::allgather)) return sum_gathered(tape);
    if (!at_origin_ && shares_experts()) {
      exchange(tape, scatter(), ".reduce_scatter", held_.came);
      // Each rank has a part of the sum.
      if (dispatch_)
        exchange(tape, choices_over_features(CollectiveKind::reduce_scatter), ".reduce_scatter",
                 held_.weights_came, choices);
    }
    if (!exchanges()) return;
    exchange(tape, tokens(), ".all_to_all", held_.sent);
    if (dispatch_ && !at_origin_)
      exchange(tape, all_to_all(DType::fp32, sent_.weights), ".all_to_all", held_.weights, choices);
  }

  void sum_gathered(Tape& tape) const {
    if (!exchanges()) return;
    const bool whole = is_of_automodel(runs_.experts);
    const CollectiveKind kind = whole ? CollectiveKind::all_reduce : CollectiveKind::reduce_scatter;
    const char* suffix = whole ? ".all_reduce" : ".reduce_scatter";
    const DType wire = whole && !dispatch_ ? DType::fp32 : layout_.activation_dtype;
    const Bytes bytes = sent_.whole * (bytes_of(wire) / bytes_of(layout_.activation_dtype));
    exchange(tape, over_experts(kind, wire, bytes), suffix, own());
    if (dispatch_)
      exchange(tape, over_experts(kind, DType::fp32, sent_.weights_gathered), suffix, held_.weights,
               choices);
  }

  void arrive_from(Tape& tape) const {
    if (!is(TokenDispatcher::alltoall)) return;
    const bool scatters = at_origin_ && shares_experts();
    TapeStep& sum = move(tape, sent_.unpermute, scatters ? held_.whole : own());
    if (dispatch_)
      sum.use(TapeAccess::release_kept_extra);
    else if (at_origin_)
      sum.use(TapeAccess::keep_beside).use(TapeAccess::keep_choices, Role::choice_weights, choices);
    if (scatters) exchange(tape, scatter(), ".reduce_scatter", own());
  }

  const Layout& layout_;
  const Execution& runs_;
  const ShardedOp& to_;
  const ExpertExchange& held_;  // sizes of tensors
  const ExpertExchange& sent_;  // sizes of kernels and messages
  bool again_, dispatch_, at_origin_;
};

}  // namespace

void shard_ways(const Region& region, ShardedOp& to) {
  to.ways = WayWriter{region, to, false}.ways();
  if (region.layout->recompute == Recompute::operators)
    to.ways_again = WayWriter{region, to, true}.ways();
}

}  // namespace sim
