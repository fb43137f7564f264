#include "sim/plan/block/module_recomputation.hpp"

#include <utility>

#include "sim/base/check.hpp"

namespace sim::lowering {

void ModuleRecomputation::run_before(Frame& backward, std::size_t i) {
  const RecomputedModules& again = backward.shape->again;
  for (std::size_t at = 0; at < again.modules.size(); ++at)
    if (again.modules[at].before == i) run(backward, static_cast<int>(at));
}

void ModuleRecomputation::run(Frame& backward, int at) {
  const RecomputedModule& module = backward.shape->again.modules[static_cast<std::size_t>(at)];
  Frame again = backward;
  again.pass = Pass::recompute;
  again.keep = !module.keeps_inside;
  const Value made = module.keeps_inside ? run_kept(again, module) : run_parts(again, module);
  if (module.discards_output) hand_out(again, at, made);
  tensors_.drop(made, Role::output);
}

// One operator, from the input that it has kept.
Value ModuleRecomputation::run_kept(Frame& again, const RecomputedModule& module) {
  const std::size_t i = module.ops.front();
  const ShardedOp& op = again.shape->ops[i];
  const Saved& saved = again.saved[i];
  SIM_CHECK(saved.input.value != none, op.op->name);
  forward_.wait_for_copies(op);
  emit_.compute(again, i, again.work->ops[i].forward, again.work->ops[i].name, Action::forward);
  builder_.reads(saved.input, Role::input);
  if (saved.weights.value != none) builder_.reads(saved.weights, Role::choice_weights);
  emit_.read_weight(again, i);
  Value made = tensors_.allocate(op.output);
  builder_.writes(made.buffer, Role::output);
  return made;
}

// An operator starts from what the one before it has made, or from an input that was kept.
Value ModuleRecomputation::run_parts(Frame& again, const RecomputedModule& module) {
  Value x;
  for (std::size_t part = 0; part < module.ops.size(); ++part) {
    const std::size_t i = module.ops[part];
    Value kept = std::exchange(again.saved[i].module_input, {});
    if (kept.exists()) {
      kept.ready = OpId{none};  // its forward pass has read it: no need to wait again
      // The tensor made so far goes past the branch that begins here, to the sum behind it.
      if (x.exists()) {
        const auto sum = module.ops.back();
        const int from = again.shape->ops[sum].op->residual_of;
        SIM_CHECK(from >= 0, again.shape->ops[i].op->name);
        branches_.past[static_cast<std::size_t>(from)] = x;
      }
      x = forward_.run_again(again, i, kept);
    } else {
      x = forward_.run_next(again, i, x);
    }
  }
  return x;
}

// Operators that read the output find it where they would have kept it. In a module that runs
// again, the first operator does; the others keep their inputs then.
void ModuleRecomputation::hand_out(const Frame& frame, int at, const Value& made) {
  const RecomputedModules& again = frame.shape->again;
  for (std::size_t i = 0; i < again.input_from.size(); ++i) {
    const bool starts = again.starts(i);
    if (again.input_from[i] != at || (again.keeps_nothing(i) && !starts)) continue;
    tensors_.retain(made.buffer);
    if (starts) {
      frame.saved[i].module_input = made;
    } else {
      frame.saved[i].input = made.buffer;
    }
  }
}

}  // namespace sim::lowering
