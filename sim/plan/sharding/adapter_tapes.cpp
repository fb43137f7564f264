#include "sim/plan/sharding/adapter_tapes.hpp"

namespace sim {
namespace {

// AdapterTapes writes the tapes of an adapter from its kernels.
class AdapterTapes {
 public:
  AdapterTapes(const Region& region, const ShardedOp& to, const AdapterKernels& kernels)
      : dtype_{region.layout->activation_dtype}, to_{to}, kernels_{kernels} {}

  Tape forward(bool to_end) const {
    Tape tape{.result = tape_value::output};
    if (kernels_.weight_norm) take_norms(tape);
    TapeValue kept = tape_value::input;
    if (kernels_.drop) {
      kept = tape.tensor();
      run(tape, *kernels_.drop)
          .drops(tape_value::input, Role::input)
          .makes(kept, Role::output, to_.whole_input);
    }
    const TapeValue narrow = tape.tensor();
    multiply(tape, kernels_.down, {TapeAccess::drop, Role::input, kept})
        .makes(narrow, Role::output, kernels_.narrow);
    if (kernels_.gathers_narrow)
      exchange(tape, CollectiveKind::all_gather, kernels_.narrow, narrow);
    if (kernels_.sums_narrow) exchange(tape, CollectiveKind::all_reduce, kernels_.narrow, narrow);
    if (to_end)
      tape.behind().drops(narrow, Role::output);
    else
      add_to_output(tape, narrow);
    return tape;
  }

  Tape backward() const {
    Tape tape{.result = tape_value::input_gradient};
    const TapeUse gradient{TapeAccess::read, Role::gradient, tape_value::gradient};
    if (kernels_.magnitude_gradient) multiply(tape, *kernels_.magnitude_gradient, gradient);
    const TapeUse scaled{TapeAccess::read, Role::gradient, scaled_gradient(tape)};
    const TapeUse narrow{TapeAccess::read, Role::gradient, tape.tensor()};
    multiply(tape, kernels_.up_gradient, scaled).makes(narrow.value, Role::output, kernels_.narrow);
    if (kernels_.gathers_narrow || kernels_.sums_narrow)
      exchange(tape, CollectiveKind::all_reduce, kernels_.narrow, narrow.value);
    run(tape, kernels_.up_weight)
        .use(TapeAccess::read_kept_extra)
        .use(kernels_.scale ? TapeAccess::drop : TapeAccess::read, Role::gradient, scaled.value);
    finish_gradient(tape, kernels_.up_sum);
    multiply(tape, kernels_.down_gradient, narrow)
        .makes(tape_value::input_gradient, Role::output, to_.whole_input);
    run(tape, kernels_.down_weight).use(TapeAccess::free_kept).drops(narrow.value, Role::gradient);
    finish_gradient(tape, kernels_.down_sum);
    if (kernels_.drop_gradient)
      run(tape, *kernels_.drop_gradient).writes(tape_value::input_gradient, Role::output);
    return tape;
  }

  // Where the product of the linear has added it, that one reads it.
  Tape add_gradient() const {
    Tape tape{.result = tape_value::input_gradient};
    TapeStep& step = kernels_.add_gradient ? run(tape, *kernels_.add_gradient) : tape.behind();
    step.drops(tape_value::input, Role::input);
    if (kernels_.add_gradient) step.writes(tape_value::input_gradient, Role::input_gradient);
    return tape;
  }

 private:
  static TapeStep& run(Tape& tape, const Kernel& kernel) {
    return tape.add(kernel, Action::adapt, ".adapter");
  }
  static TapeStep& multiply(Tape& tape, const Kernel& kernel, const TapeUse& operand) {
    return run(tape, kernel).use(operand.access, operand.role, operand.value).reads_weight();
  }
  TapeStep& exchange(Tape& tape, const Collective& collective) const {
    return tape.add(collective, Action::exchange_adapted, ".adapter.exchange");
  }
  void exchange(Tape& tape, CollectiveKind kind, Bytes bytes, TapeValue value) const {
    exchange(tape, {kind, GroupRole::tensor, dtype_, bytes}).writes(value, Role::output);
  }

  // Layout::lora_magnitudes: of the weight with B A, which are matrices of their own meanwhile:
  // both, the scaled one and the sum.
  void take_norms(Tape& tape) const {
    run(tape, *kernels_.weight_down);
    run(tape, *kernels_.weight_up).reads_weight();
    run(tape, *kernels_.weight_norm).reads_weight().takes(kernels_.matrices);
  }

  // A tensor as large as the output, of all tensor ranks where they are gathered.
  Bytes wide() const { return gathers() ? kernels_.gathered : to_.whole_output; }
  bool gathers() const { return kernels_.gathered.count() > 0; }

  void add_to_output(Tape& tape, TapeValue narrow) const {
    const TapeUse factor{TapeAccess::drop, Role::input, narrow};
    if (!kernels_.add) {
      multiply(tape, kernels_.up, factor).writes(tape_value::output, Role::output);
      return;
    }
    const TapeValue sum = tape.tensor();
    multiply(tape, kernels_.up, factor).makes(sum, Role::output, wide());
    if (gathers()) exchange(tape, CollectiveKind::all_gather, kernels_.gathered, sum);
    run(tape, *kernels_.scale).writes(sum, Role::output);
    run(tape, *kernels_.add).drops(sum, Role::input).writes(tape_value::output, Role::output);
  }

  // Scaled, where a kernel of its own does that, and of all tensor ranks.
  TapeValue scaled_gradient(Tape& tape) const {
    if (!kernels_.scale) return tape_value::gradient;
    const TapeValue scaled = tape.tensor();
    run(tape, *kernels_.scale)
        .reads(tape_value::gradient, Role::gradient)
        .makes(scaled, Role::output, wide());
    if (gathers()) exchange(tape, CollectiveKind::all_gather, kernels_.gathered, scaled);
    return scaled;
  }

  // Summed in a hook of the weight, for which the backward pass waits (Megatron-Bridge at 067f987d,
  // peft/utils.py, _allreduce_shared_expert_grad).
  void finish_gradient(Tape& tape, Bytes summed) const {
    tape.steps.back().use(TapeAccess::write_gradient);
    if (summed.count() > 0)
      exchange(tape, {CollectiveKind::all_reduce, GroupRole::expert, dtype_, summed})
          .use(TapeAccess::reduce_gradient);
    tape.steps.back().use(TapeAccess::finish_gradient);
  }

  DType dtype_;
  const ShardedOp& to_;
  const AdapterKernels& kernels_;
};

}  // namespace

LowRankAdapter taped(const Region& region, const ShardedOp& to, const AdapterKernels& kernels) {
  const AdapterTapes tapes{region, to, kernels};
  return {.forward = tapes.forward(false),
          .forward_to_end = tapes.forward(true),
          .backward = tapes.backward(),
          .add_gradient = tapes.add_gradient(),
          .adds_in_product = !kernels.add_gradient,
          .kept = kernels.narrow + kernels.mask + kernels.mixed,
          .narrow = kernels.down.n,
          .rank = kernels.up.k,
          .parameters = kernels.parameters};
}

}  // namespace sim
